// The counts of a run. Drivers report as they proceed; the progress display reads it at any time.

import Synchronization

/// The progress of a run.
package struct DeliveryProgress: Hashable, Sendable {
    /// Events that were sent and compared, copies included.
    package var delivered: Int
    package var total: Int

    package init(delivered: Int, total: Int) {
        self.delivered = delivered
        self.total = total
    }
}

/// The result of a run.
package struct Summary: Hashable, Sendable {
    /// Drives of each scenario that were played to their end.
    package var drives: [Scenario: Int] = [:]
    /// Distinct events.
    package var events = 0
    /// Deliveries of events that the server already had.
    package var duplicates = 0
    package var requests = 0
    /// Requests that the rate limiter deferred.
    package var limited = 0
    /// Requests that had to be repeated for another reason.
    package var repeatedRequests = 0
    package var latencies = Latencies()

    package init() {}
}

final class Tally: Sendable {
    private struct State {
        var summary = Summary()
        var delivered = 0
    }

    private let total: Int
    private let state = Mutex(State())

    init(total: Int) {
        self.total = total
    }

    func change(_ body: (inout Summary) -> Void) {
        state.withLock { body(&$0.summary) }
    }

    func delivered(isRepeat: Bool) {
        state.withLock { state in
            state.delivered += 1
            if isRepeat { state.summary.duplicates += 1 } else { state.summary.events += 1 }
        }
    }

    var progress: DeliveryProgress { state.withLock { DeliveryProgress(delivered: $0.delivered, total: total) } }

    var summary: Summary { state.withLock(\.summary) }
}
