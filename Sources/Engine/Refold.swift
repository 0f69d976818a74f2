// Bringing stored journeys under the rules of this release (docs/decisions/refold.md): the port, what one part of the
// work changed, and the run at the start of the server.

package import JourneyModel
package import Logging
import Telemetry

/// The port behind which drivers wait to be folded by the rules of this release.
package protocol JourneyRefolder: Sendable {
    /// Folds the next driver who was folded by other rules, in one transaction.
    func refold(_ request: RefoldRequest) async throws(StoreFailure) -> RefoldPart

    /// Requests that wait for the writer.
    var writesWaiting: Int { get }
}

package struct RefoldRequest: Hashable, Sendable {
    /// The store's number of the last driver who was looked at; 0 at the begin.
    package var after: Int64
    /// Only drivers who have sent something since; nil: all.
    package var since: Moment?
    /// Computes everything and keeps nothing.
    package var isDryRun: Bool

    package init(after: Int64 = 0, since: Moment? = nil, isDryRun: Bool = false) {
        self.after = after
        self.since = since
        self.isDryRun = isDryRun
    }
}

package struct RefoldPart: Hashable, Sendable {
    /// Where the next part begins; nil when no driver is left.
    package var next: Int64?
    package var counts: RefoldCounts
    /// Why a driver could not be folded; the next part goes on after it.
    package var failure: StoreFailure?

    package init(next: Int64?, counts: RefoldCounts, failure: StoreFailure? = nil) {
        self.next = next
        self.counts = counts
        self.failure = failure
    }
}

/// What was folded again, and what became different.
package struct RefoldCounts: Hashable, Sendable {
    package var drivers = 0
    package var events = 0
    /// Expiries that had to be stored besides.
    package var expiries = 0
    /// Drivers who stand elsewhere now.
    package var movedDrivers = 0
    /// Events with another verdict, by what it was and what it is.
    package var verdicts: [RefoldChange: Int] = [:]
    /// Sessions that are over for another reason, by reasons; those that had none, or none that was known, among them.
    package var endings: [RefoldChange: Int] = [:]

    package init() {}

    package static func += (sum: inout RefoldCounts, other: RefoldCounts) {
        sum.drivers += other.drivers
        sum.events += other.events
        sum.expiries += other.expiries
        sum.movedDrivers += other.movedDrivers
        sum.verdicts.merge(other.verdicts, uniquingKeysWith: +)
        sum.endings.merge(other.endings, uniquingKeysWith: +)
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

/// At the start of the server: folds the drivers that an older release folded, one after the other, and only
/// while nobody waits for the writer. Drivers who send something first are folded with that.
package struct RefoldKeeping: Sendable {
    static let pause = Duration.milliseconds(20)
    static let pauseAfterFailure = Duration.seconds(10)

    private let store: any JourneyRefolder
    private let logger: Logger

    package init(store: any JourneyRefolder, logger: Logger) {
        self.store = store
        self.logger = logger
    }

    /// Returns when the task is cancelled. A service that returns earlier ends the server, so this one waits when no
    /// driver is left.
    package func run() async {
        await foldAll()
        try? await Task.sleep(for: .seconds(1 << 40))
    }

    /// Returns when no driver is left, or the task is cancelled.
    package func foldAll() async {
        var counts = RefoldCounts()
        var request = RefoldRequest()
        while !Task.isCancelled {
            do {
                while store.writesWaiting > 0 { try await Task.sleep(for: Self.pause) }
                let part = try await store.refold(request)
                counts += part.counts
                if let failure = part.failure {
                    logger.error("a driver cannot be folded again", metadata: ["failure": "\(failure)"])
                }
                guard let next = part.next else { break }
                request.after = next
                await Task.yield()
            } catch is CancellationError {
                return
            } catch {
                logger.error("journeys cannot be folded again", metadata: ["failure": "\(error)"])
                do { try await Task.sleep(for: Self.pauseAfterFailure) } catch { return }
            }
        }
        guard counts.drivers > 0 else { return }
        logger.notice(
            "journeys are folded by the rules of this release",
            metadata: [
                "drivers": .number(counts.drivers), "events": .number(counts.events),
                "changed_verdicts": .number(counts.verdicts.values.reduce(0, +)),
                "moved_drivers": .number(counts.movedDrivers),
            ])
    }
}
