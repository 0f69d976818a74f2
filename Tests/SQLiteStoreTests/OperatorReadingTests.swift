// Tests of the operator page's counts, on real rows. New events change the counts.

import Engine
import GRDB
import Identity
import JourneyModel
import SharedTables
import TestSupport
import Testing

@testable import SQLiteStore

@Suite struct OperatorReadingTests {
    private let folder: ScratchFolder
    private let now = Moment.sample

    init() throws { folder = try ScratchFolder() }

    private func open() throws -> SQLiteEventStore {
        try SQLiteEventStore(path: folder.file("db"), nowMilliseconds: 0)
    }

    private func store(
        _ name: EventName, of driver: String, minutesAgo: Int, in store: SQLiteEventStore
    ) async throws {
        let at = now.advanced(bySeconds: -60 * minutesAgo)
        _ = try await store.appended(
            .sample(.sample(name, key: "\(driver)\(minutesAgo)", at: at), of: DriverID(driver), receivedAt: at))
    }

    @Test func theLastHourIsCountedOnceHoweverOftenItIsAskedFor() async throws {
        let store = try open()
        try await self.store(.chargerTargeted, of: "a", minutesAgo: 90, in: store)
        try await self.store(.enteredChargerIntentZone, of: "a", minutesAgo: 30, in: store)
        try await self.store(.anchorDwellComplete, of: "b", minutesAgo: 20, in: store)
        try await self.store(.diagnostic("teleport_detected"), of: "b", minutesAgo: 10, in: store)
        let picture = DashboardSnapshot(reader: store, drivers: DriverCounts(reader: store, keptPerDuration: 0))
        let first = try await picture.current(at: now)
        #expect(first.drivers == [.nearCharger: 1, .idle: 1])
        #expect(first.tallies.count == 3 && first.tallies.allSatisfy { $0.count == 1 })
        #expect(first.isWhole)
        #expect(first.storageBytes > 0)
        let rejected = first.tallies.filter { $0.verdict.transition == .rejected }
        #expect(rejected.map(\.name) == ["anchorDwellComplete"])
        #expect(first.tallies.contains { $0.name == "diagnostic" })

        try await self.store(.anchorDwellComplete, of: "a", minutesAgo: 0, in: store)
        let later = now.advanced(byMilliseconds: DashboardSnapshot.refreshMilliseconds)
        let second = try await picture.current(at: later)
        #expect(second.drivers == [.anchored: 1, .idle: 1])
        #expect(second.tallies.map(\.count).reduce(0, +) == 4)
        // After forty minutes, two of the four events are at least an hour old.
        let third = try await picture.current(at: now.advanced(bySeconds: 40 * 60))
        #expect(third.tallies.map(\.count).reduce(0, +) == 2)
        // After 160 minutes, all events are older than an hour.
        let fourth = try await picture.current(at: now.advanced(bySeconds: 160 * 60))
        #expect(fourth.tallies.isEmpty)
        await store.close()
    }

    @Test func anySessionIsFoundWithItsDriver() async throws {
        let store = try open()
        let submission = EventSubmission.sample(.exclusiveActivatedByWeb, key: "k", session: "s")
        _ = try await store.appended(.sample(submission, of: DriverID("a")))
        let found = try #require(try await store.operatorTimeline(of: "s", limit: 10))
        #expect(found.driver == DriverID("a"))
        #expect(found.timeline.events.map(\.eventID) == ["k"])
        #expect(try await store.operatorTimeline(of: "t", limit: 10) == nil)
        #expect(try await store.settingsVersions(limit: 5).map(\.version) == [Settings().version])
        await store.close()
    }

    @Test func `what waits to be delivered has a count and the time of its oldest`() async throws {
        let store = try open()
        #expect(try await store.receivedAt(ofFirstEventAfter: 0) == nil)
        #expect(try await store.waitingRevocations() == WaitingRevocations(count: 0, oldest: nil))
        for minutes in [30, 20] { try await self.store(.chargerTargeted, of: "a", minutesAgo: minutes, in: store) }
        #expect(try await store.receivedAt(ofFirstEventAfter: 0) == now.advanced(bySeconds: -30 * 60))
        #expect(try await store.receivedAt(ofFirstEventAfter: 1) == now.advanced(bySeconds: -20 * 60))
        try await store.change { db in
            for createdAt in [2000, 1000] {
                try db.execute(
                    sql: """
                        INSERT INTO apple_revocation
                            (client_id, sealed_refresh_token, subject_digest, next_attempt_at_ms, created_at_ms)
                        VALUES ('app', x'00', zeroblob(32), 0, ?)
                        """, arguments: [createdAt])
            }
        }
        let oldest = Moment(millisecondsSinceEpoch: 1000)
        #expect(try await store.waitingRevocations() == WaitingRevocations(count: 2, oldest: oldest))
        await store.close()
    }
}
