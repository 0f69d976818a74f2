// The counts of a run. The simulated drivers increase them, and the progress display reads them.

import Synchronization

/// The progress of a run.
package struct DeliveryProgress: Hashable, Sendable {
    /// The number of events that were sent and compared, including copies.
    package var delivered: Int
    package var total: Int

    package init(delivered: Int, total: Int) {
        self.delivered = delivered
        self.total = total
    }
}

/// The result of a run.
package struct Summary: Hashable, Sendable {
    /// The number of drives played to their end, by scenario.
    package var drives: [Scenario: Int] = [:]
    /// The number of distinct events.
    package var events = 0
    /// The number of deliveries of events that the server had already stored.
    package var duplicates = 0
    package var requests = 0
    /// The number of responses in which the server's rate limiter deferred a request or events of a batch.
    package var limited = 0
    /// The number of requests that were repeated after a failure. A rate limit is not a failure.
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
