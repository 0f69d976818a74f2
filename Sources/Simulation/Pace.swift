// How fast events go out, over all drivers.

actor Pace {
    private let interval: Duration
    private var next: ContinuousClock.Instant

    init(eventsPerSecond: Double) {
        interval = .seconds(1 / eventsPerSecond)
        next = .now
    }

    /// Returns when so many events may be sent. Who asks first goes first; time that nobody used is not made up for.
    func wait(forEvents count: Int) async throws {
        let turn = max(next, .now)
        next = turn + interval * count
        try await Task.sleep(until: turn, clock: .continuous)
    }
}
