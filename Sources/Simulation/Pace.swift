// Limits the rate at which all drivers together send events.

actor Pace {
    private let interval: Duration
    private var next: ContinuousClock.Instant

    init(eventsPerSecond: Double) {
        interval = .seconds(1 / eventsPerSecond)
        next = .now
    }

    /// Waits until `count` events may be sent. Calls are served in the order of their arrival. A pause in the calls
    /// does not permit a higher rate later.
    func wait(forEvents count: Int) async throws {
        let turn = max(next, .now)
        next = turn + interval * count
        try await Task.sleep(until: turn, clock: .continuous)
    }
}
