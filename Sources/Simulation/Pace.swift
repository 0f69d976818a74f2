// Limits the rate of events of all drivers together.

actor Pace {
    private let interval: Duration
    private var next: ContinuousClock.Instant

    init(eventsPerSecond: Double) {
        interval = .seconds(1 / eventsPerSecond)
        next = .now
    }

    /// Waits until `count` events may be sent. Calls are served in order. Time without calls does not raise the later
    /// rate.
    func wait(forEvents count: Int) async throws {
        let turn = max(next, .now)
        next = turn + interval * count
        try await Task.sleep(until: turn, clock: .continuous)
    }
}
