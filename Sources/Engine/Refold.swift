// Refolds stored journeys by the rules of this release (docs/decisions/refold.md). This file contains the port, the
// counts of one part of a refold, and the task that refolds while the server runs.

package import JourneyModel
package import Logging
import StructuredLogging

/// The port that refolds drivers by the rules of this release, and completes refolds that were interrupted.
package protocol JourneyRefolder: Sendable {
    /// Refolds the next driver whose journey was folded by the rules of another release, or whose refold is incomplete.
    /// One call refolds at most as many events as one transaction may change.
    func refold(_ request: RefoldRequest) async throws(StoreFailure) -> RefoldPart

    /// Returns whether any driver's refold is incomplete, even if no request waits for that refold.
    func hasUnfinishedRefolds() async throws(StoreFailure) -> Bool

    /// The number of requests that wait for the writer. A refold waits until no request waits.
    var writesWaiting: Int { get }
}

package struct RefoldRequest: Hashable, Sendable {
    /// The row number of the last examined driver; 0 at the beginning.
    package var after: Int64
    /// Only drivers with an event since this time are refolded. Nil refolds all drivers.
    package var since: Moment?
    /// Whether the result of the refold is only computed and not stored.
    package var isDryRun: Bool
    /// Whether only incomplete refolds are continued. No other driver is then read.
    package var resumesOnly: Bool

    package init(after: Int64 = 0, since: Moment? = nil, isDryRun: Bool = false, resumesOnly: Bool = false) {
        self.after = after
        self.since = since
        self.isDryRun = isDryRun
        self.resumesOnly = resumesOnly
    }
}

package struct RefoldPart: Hashable, Sendable {
    /// The row number after which the next part begins; nil when all drivers are done.
    package var next: Int64?
    package var counts: RefoldCounts
    /// The reason why one driver could not be refolded. The next part continues after that driver.
    package var failure: StoreFailure?

    package init(next: Int64?, counts: RefoldCounts, failure: StoreFailure? = nil) {
        self.next = next
        self.counts = counts
        self.failure = failure
    }
}

/// The numbers of drivers and events that were refolded, and the numbers of drivers, events and sessions that the
/// refold changed.
package struct RefoldCounts: Hashable, Sendable {
    package var drivers = 0
    package var events = 0
    /// The number of expiries that were missing and had to be stored.
    package var expiries = 0
    /// Drivers whose journey changed.
    package var movedDrivers = 0
    /// Events with a changed verdict, by old and new verdict.
    package var verdicts: [RefoldChange: Int] = [:]
    /// Sessions whose state or reason for ending changed, by old and new value.
    package var sessions: [RefoldChange: Int] = [:]

    package init() {}

    package static func += (sum: inout RefoldCounts, other: RefoldCounts) {
        sum.drivers += other.drivers
        sum.events += other.events
        sum.expiries += other.expiries
        sum.movedDrivers += other.movedDrivers
        sum.verdicts.merge(other.verdicts, uniquingKeysWith: +)
        sum.sessions.merge(other.sessions, uniquingKeysWith: +)
    }
}

package struct RefoldChange: Hashable, Sendable {
    package var old: String
    package var new: String

    package init(from old: String, to new: String) {
        self.old = old
        self.new = new
    }
}

/// The task that refolds journeys. When the server starts, the task refolds the drivers whose journeys an older release
/// folded. It refolds one driver after the other, and only while no request waits for the writer. If a driver sends an
/// event before the task reaches that driver, the driver is refolded together with the event. Afterwards the task
/// completes refolds that were interrupted because a write failed, or because the process that began them crashed.
package struct RefoldService: Sendable {
    static let pause = Duration.milliseconds(20)
    static let pauseAfterFailure = Duration.seconds(10)
    static let pauseBetweenChecks = Duration.seconds(5)

    private let store: any JourneyRefolder
    private let logger: Logger

    package init(store: any JourneyRefolder, logger: Logger) {
        self.store = store
        self.logger = logger
    }

    /// Runs until the task is cancelled.
    package func run() async {
        await foldAll(RefoldRequest())
        while !Task.isCancelled {
            do { try await Task.sleep(for: Self.pauseBetweenChecks) } catch { return }
            if (try? await store.hasUnfinishedRefolds()) == true { await foldAll(RefoldRequest(resumesOnly: true)) }
        }
    }

    /// Refolds drivers until all are done, or until the task is cancelled.
    package func foldAll(_ request: RefoldRequest) async {
        var counts = RefoldCounts()
        var request = request
        while !Task.isCancelled {
            do {
                while store.writesWaiting > 0 { try await Task.sleep(for: Self.pause) }
                let part = try await store.refold(request)
                counts += part.counts
                if let failure = part.failure {
                    logger.error("refolding a driver failed", metadata: ["failure": "\(failure)"])
                }
                guard let next = part.next else { break }
                request.after = next
                await Task.yield()
            } catch is CancellationError {
                return
            } catch {
                logger.error("refolding journeys failed", metadata: ["failure": "\(error)"])
                do { try await Task.sleep(for: Self.pauseAfterFailure) } catch { return }
            }
        }
        guard counts.drivers > 0 else { return }
        logger.notice(
            "journeys refolded under the rules of this release",
            metadata: [
                "drivers": .number(counts.drivers), "events": .number(counts.events),
                "changed_verdicts": .number(counts.verdicts.values.reduce(0, +)),
                "moved_drivers": .number(counts.movedDrivers),
            ])
    }
}
