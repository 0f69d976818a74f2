// The rate of events, over all drivers.

actor Pace {
    private let interval: Duration
    private var next: ContinuousClock.Instant

    init(eventsPerSecond: Double) {
        interval = .seconds(1 / eventsPerSecond)
        next = .now
    }

    /// Returns when `count` events may be sent. First come, first served; unused time is not made up for.
    func wait(forEvents count: Int) async throws {
        let turn = max(next, .now)
        next = turn + interval * count
        try await Task.sleep(until: turn, clock: .continuous)
    }
}
