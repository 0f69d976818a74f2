// Limits the rate at which all drivers together send events.

actor Pace {
    private let interval: Duration
    private var next: ContinuousClock.Instant

    init(eventsPerSecond: Double) {
        interval = .seconds(1 / eventsPerSecond)
        next = .now
    }

    /// Waits until `count` events may be sent. Calls are served in the order of their arrival. After a pause in the
    /// calls, the rate is not higher than without the pause.
    func wait(forEvents count: Int) async throws {
        let turn = max(next, .now)
        next = turn + interval * count
        try await Task.sleep(until: turn, clock: .continuous)
    }
}
