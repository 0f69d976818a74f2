// Refolds journeys in the background: those that an older release folded, and those whose refold is urgent.

package import JourneyModel
package import Logging
import StructuredLogging

/// The task that refolds one driver after another, if possible while no request waits for the writer.
///
/// When the server starts, and then every five minutes, the task searches all drivers for journeys that an older
/// release folded, and refolds them. One search is not enough: during an update, a server of an older release may also
/// use the database, and create drivers after the first search.
///
/// Every five seconds, also during a search, the task does the urgent refolds.
package struct RefoldService: Sendable {
    /// The wait before each part: at most a tenth of a second.
    static let writerWait = WriterWait(requestsMax: 0, pause: .milliseconds(20), pausesMax: 5)
    static let pauseAfterFailure = Duration.seconds(10)
    /// The number of checks for urgent refolds between two searches.
    static let checksPerSearch = 60

    private let store: any JourneyRefolder
    private let clock: @Sendable () -> Moment
    private let logger: Logger
    private let pauseBetweenChecks: Duration

    package init(
        store: any JourneyRefolder, clock: @escaping @Sendable () -> Moment, logger: Logger,
        pauseBetweenChecks: Duration = .seconds(5)
    ) {
        self.store = store
        self.clock = clock
        self.logger = logger
        self.pauseBetweenChecks = pauseBetweenChecks
    }

    /// Runs until the task is cancelled.
    package func run() async {
        var logLimit = FailureLogLimit()
        while !Task.isCancelled {
            await refold(RefoldRequest(), &logLimit)
            for _ in 0..<Self.checksPerSearch {
                do { try await Task.sleep(for: pauseBetweenChecks) } catch { return }
                await refold(urgent, &logLimit)
            }
        }
    }

    private var urgent: RefoldRequest { RefoldRequest(urgentOnly: true, now: clock()) }

    /// Refolds the drivers that `request` selects, until all are done or the task is cancelled. Logs the sum of the
    /// counts.
    ///
    /// All calls share one `logLimit`, because a driver who cannot be refolded fails in every call.
    package func refold(_ request: RefoldRequest, _ logLimit: inout FailureLogLimit) async {
        let counts = await counts(of: request, &logLimit)
        guard counts.drivers > 0 else { return }
        logger.notice(
            "journeys refolded under the rules of this release",
            metadata: [
                "drivers": .number(counts.drivers), "events": .number(counts.events),
                "changed_verdicts": .number(counts.verdicts.values.reduce(0, +)),
                "moved_drivers": .number(counts.movedDrivers),
            ])
    }

    /// Refolds the drivers that `request` selects. A search of all drivers may take long, so it also does the urgent
    /// refolds in between.
    private func counts(of request: RefoldRequest, _ logLimit: inout FailureLogLimit) async -> RefoldCounts {
        var counts = RefoldCounts()
        var request = request
        var nextCheck = ContinuousClock.now + pauseBetweenChecks
        while !Task.isCancelled {
            do {
                if !request.urgentOnly, .now >= nextCheck {
                    counts += await self.counts(of: urgent, &logLimit)
                    nextCheck = .now + pauseBetweenChecks
                }
                await Self.writerWait.wait { store.writesWaiting }
                if Task.isCancelled { break }
                let part = try await store.refold(request)
                counts += part.counts
                if let failure = part.failure, logLimit.allowsLine(at: clock()) {
                    logger.error("refolding a driver failed", metadata: ["failure": "\(failure)"])
                }
                guard let next = part.next else { break }
                request.after = next
                await Task.yield()
            } catch StoreFailure.cancelled {
                break
            } catch {
                if logLimit.allowsLine(at: clock()) {
                    logger.error("refolding journeys failed", metadata: ["failure": "\(error)"])
                }
                try? await Task.sleep(for: Self.pauseAfterFailure)
            }
        }
        return counts
    }
}
