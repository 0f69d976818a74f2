// Tests of the feed: a consumer of the event table reads events in the order of their commits. The stored position of
// the consumer never decreases.

import Engine
import JourneyModel
import TestSupport
import Testing

@testable import SQLiteStore

@Suite struct FeedTests {
    private let folder: ScratchFolder
    private let driver = DriverID("d")

    init() throws { folder = try ScratchFolder() }

    private func open() throws -> SQLiteEventStore {
        try SQLiteEventStore(path: folder.file("db"), nowMilliseconds: 0)
    }

    @Test func eventsComeInTheOrderOfTheirCommits() async throws {
        let store = try open()
        for number in 1...5 {
            // The events are committed in the reverse of their order in the journey.
            let submission = EventSubmission.sample(
                .chargerTargeted, key: "k\(number)", at: .sample.advanced(bySeconds: -number), metadata: "{\"a\":1}")
            _ = try await store.appended(.sample(submission, of: driver))
        }
        let first = try await store.storedEvents(after: 0, limit: 3)
        #expect(first.map(\.eventID) == ["k1", "k2", "k3"])
        #expect(first.allSatisfy { $0.driver == driver && $0.metadata == "{\"a\":1}" && $0.state == .idle })
        let rest = try await store.storedEvents(after: first[2].id, limit: 3)
        #expect(rest.map(\.eventID) == ["k4", "k5"])
        #expect(rest.map(\.id) == [first[2].id + 1, first[2].id + 2])
        await store.close()
    }

    @Test func aPlaceIsKeptAndNeverGoesBack() async throws {
        let store = try open()
        _ = try await store.appended(.sample(.sample(.chargerTargeted, key: "k"), of: driver))
        #expect(try await store.position(of: "a") == FeedPosition(last: 0, newest: 1, lostCount: 0))
        try await store.move("a", to: 7, losing: 2, at: .sample)
        try await store.move("a", to: 9, losing: 1, at: .sample)
        try await store.move("a", to: 8, losing: 5, at: .sample)
        await store.close()
        let again = try open()
        #expect(try await again.position(of: "a") == FeedPosition(last: 9, newest: 1, lostCount: 3))
        #expect(try await again.position(of: "b").last == 0)
        await again.close()
    }
}
