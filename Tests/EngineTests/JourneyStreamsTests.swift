// Tests of the limits of four open streams per driver and a thousand in all. Also tests the wake-ups after commits. A
// wake-up only means that there may be changes.

import JourneyModel
import Logging
import Synchronization
import TestSupport
import Testing

@testable import Engine

private final class ScriptedChanges: JourneyReader {
    let answers: Mutex<[CommittedChanges]>
    let awaitingRefold: Mutex<Set<DriverID>>
    let refoldLookups = Mutex(0)
    let corrected = Mutex<[CommittedChanges]>([])

    init(_ answers: [CommittedChanges], awaitingRefold: Set<DriverID> = []) {
        self.answers = Mutex(answers)
        self.awaitingRefold = Mutex(awaitingRefold)
    }

    func driversAwaitingRefold(among drivers: Set<DriverID>) async throws(StoreFailure) -> Set<DriverID> {
        refoldLookups.withLock { $0 += 1 }
        return awaitingRefold.withLock { $0.intersection(drivers) }
    }

    func committedChanges(
        after id: Int64?, among drivers: Set<DriverID>
    ) async throws(StoreFailure) -> CommittedChanges {
        answers.withLock { $0.isEmpty ? CommittedChanges(newest: id ?? 0, drivers: .these([])) : $0.removeFirst() }
    }

    func journey(of driver: DriverID) async throws(StoreFailure) -> Journey { Journey() }

    func correctedJourneys(after id: Int64?) async throws(StoreFailure) -> CommittedChanges {
        guard let id else { return CommittedChanges(newest: 0, drivers: .any) }
        return corrected.withLock {
            $0.isEmpty ? CommittedChanges(newest: id, drivers: .these([])) : $0.removeFirst()
        }
    }

    func changes(of driver: DriverID, after id: Int64?) async throws(StoreFailure) -> JourneyChanges { .all([]) }

    func sessions(of driver: DriverID, limit: Int, after cursor: String?) async throws(StoreFailure) -> SessionPage? {
        nil
    }

    func timeline(
        of sessionID: String, of driver: DriverID, limit: Int, after cursor: Int64?
    ) async throws(StoreFailure) -> TimelineOutcome { .sessionNotFound }
}

struct JourneyStreamsTests {
    private let one = DriverID("one")
    private let other = DriverID("other")
    private let clock = ManualClock()

    private func streams(_ news: [CommittedChanges] = []) -> JourneyStreams {
        JourneyStreams(
            journeys: ScriptedChanges(news), logger: Logger(label: "test", factory: { _ in SwiftLogNoOpLogHandler() }))
    }

    // MARK: Limits on open streams

    @Test func `a fifth stream of a driver waits for the oldest to be a minute old, and replaces it`() async throws {
        let streams = streams()
        var open: [JourneyStream] = []
        for _ in 0..<JourneyStreams.streamsPerDriverMax {
            open.append(try streams.open(one, at: clock.now))
            clock.advance(bySeconds: 10)
        }
        #expect(throws: JourneyStreams.Refusal.driverHasEnough(retryAfterSeconds: 20)) {
            try streams.open(one, at: clock.now)
        }
        open.append(try streams.open(other, at: clock.now))
        clock.advance(bySeconds: 20)
        open.append(try streams.open(one, at: clock.now))
        #expect(streams.count == 5)
        for await _ in open[0].wakes { Issue.record("the replaced stream goes on") }
    }

    @Test func `after the clock was set back, the oldest stream of a driver is replaced`() throws {
        let streams = streams()
        var open: [JourneyStream] = []
        for _ in 0..<JourneyStreams.streamsPerDriverMax { open.append(try streams.open(one, at: clock.now)) }
        // Requests are handled concurrently, so a request's time may be slightly before the opening of the newest
        // stream. This must not count as a clock that was set back.
        #expect(throws: JourneyStreams.Refusal.driverHasEnough(retryAfterSeconds: 60)) {
            try streams.open(one, at: clock.now.advanced(byMilliseconds: -50))
        }
        clock.advance(bySeconds: -86_400)
        open.append(try streams.open(one, at: clock.now))
        #expect(streams.count == JourneyStreams.streamsPerDriverMax && open.count == streams.count + 1)
    }

    @Test func `a place comes back when its stream is let go of`() throws {
        let streams = streams()
        for _ in 0..<20 {
            let stream = try streams.open(one, at: clock.now)
            #expect(streams.count == 1)
            stream.wake()
        }
        #expect(streams.count == 0)
    }

    @Test func `the process has so many places`() throws {
        let streams = streams()
        var open: [JourneyStream] = []
        for index in 0..<JourneyStreams.streamsMax {
            open.append(try streams.open(DriverID("\(index)"), at: clock.now))
        }
        #expect(throws: JourneyStreams.Refusal.full) { try streams.open(one, at: clock.now) }
        open.removeLast()
        open.append(try streams.open(one, at: clock.now))
    }

    @Test func `closing ends every stream, and there is no new one`() async throws {
        let streams = streams()
        let open = try (0..<3).map { _ in try streams.open(one, at: clock.now) }
        streams.close()
        for stream in open {
            for await _ in stream.wakes { Issue.record("a closed stream was woken") }
        }
        #expect(throws: JourneyStreams.Refusal.closed) { try streams.open(other, at: clock.now) }
    }

    // MARK: Wake-ups

    @Test(.timeLimit(.minutes(1))) func `commits wake the streams of their drivers, once however many there were`()
        async throws
    {
        let streams = streams([
            CommittedChanges(newest: 7, drivers: .any), CommittedChanges(newest: 8, drivers: .these([one])),
            CommittedChanges(newest: 9, drivers: .these([one])), CommittedChanges(newest: 10, drivers: .these([other])),
        ])
        let (mine, theirs) = (try streams.open(one, at: clock.now), try streams.open(other, at: clock.now))
        #expect(try await streams.wakeChanged(after: nil) == 7, "whoever came before it may have missed some")
        var myWakes = mine.wakes.makeAsyncIterator()
        var theirWakes = theirs.wakes.makeAsyncIterator()
        #expect(await myWakes.next() != nil)
        #expect(await theirWakes.next() != nil)

        #expect(try await streams.wakeChanged(after: 7) == 8)
        #expect(try await streams.wakeChanged(after: 8) == 9)
        #expect(try await streams.wakeChanged(after: 9) == 10)
        streams.close()
        #expect(await myWakes.next() != nil, "two commits, one element")
        #expect(await myWakes.next() == nil)
        #expect(await theirWakes.next() != nil)
        #expect(await theirWakes.next() == nil)
    }

    @Test(.timeLimit(.minutes(1)))
    func `a late event wakes the streams of its driver again when its refold is complete`() async throws {
        let journeys = ScriptedChanges([CommittedChanges(newest: 8, drivers: .these([one]))])
        let streams = JourneyStreams(
            journeys: journeys, logger: Logger(label: "test", factory: { _ in SwiftLogNoOpLogHandler() }))
        let mine = try streams.open(one, at: clock.now)
        try await streams.wakeRefolded()
        var wakes = mine.wakes.makeAsyncIterator()
        #expect(await wakes.next() != nil)

        journeys.awaitingRefold.withLock { $0 = [one] }
        #expect(try await streams.wakeChanged(after: 7) == 8)
        try await streams.wakeRefolded()
        #expect(await wakes.next() != nil)
        journeys.awaitingRefold.withLock { $0 = [] }
        try await streams.wakeRefolded()
        #expect(await wakes.next() != nil)
        streams.close()
        #expect(await wakes.next() == nil)
    }

    @Test(.timeLimit(.minutes(1)))
    func `a correction of settings wakes the streams of the drivers whose journey it changed`() async throws {
        let journeys = ScriptedChanges([])
        let streams = JourneyStreams(
            journeys: journeys, logger: Logger(label: "test", factory: { _ in SwiftLogNoOpLogHandler() }))
        let (mine, theirs) = (try streams.open(one, at: clock.now), try streams.open(other, at: clock.now))
        journeys.corrected.withLock { $0 = [CommittedChanges(newest: 3, drivers: .these([one]))] }
        #expect(try await streams.wakeCorrected(after: 2) == 3)
        #expect(try await streams.wakeCorrected(after: 3) == 3)
        streams.close()
        var (myWakes, theirWakes) = (mine.wakes.makeAsyncIterator(), theirs.wakes.makeAsyncIterator())
        #expect(await myWakes.next() != nil)
        #expect(await myWakes.next() == nil)
        #expect(await theirWakes.next() == nil)
    }

    @Test(.timeLimit(.minutes(1)))
    func `a refold wakes the streams of its driver once, and nobody is looked up after it`()
        async throws
    {
        let journeys = ScriptedChanges([], awaitingRefold: [one])
        let streams = JourneyStreams(
            journeys: journeys, logger: Logger(label: "test", factory: { _ in SwiftLogNoOpLogHandler() }))
        let mine = try streams.open(one, at: clock.now)
        try await streams.wakeRefolded()
        try await streams.wakeRefolded()
        #expect(journeys.refoldLookups.withLock { $0 } == 2)
        journeys.awaitingRefold.withLock { $0 = [] }
        try await streams.wakeRefolded()
        var wakes = mine.wakes.makeAsyncIterator()
        #expect(await wakes.next() != nil)
        try await streams.wakeRefolded()
        #expect(journeys.refoldLookups.withLock { $0 } == 3)

        // This stream was not open during the previous call. It may have read the journey before the refold, so the
        // server wakes it too.
        let later = try streams.open(one, at: clock.now)
        try await streams.wakeRefolded()
        streams.close()
        var laterWakes = later.wakes.makeAsyncIterator()
        #expect(await laterWakes.next() != nil)
        #expect(await wakes.next() == nil)
    }
}
