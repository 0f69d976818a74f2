// Tests that a driver's clock data is stored in the driver's row and survives a restart. A migration computes the clock
// data from the driver's events.

import Engine
import GRDB
import JourneyModel
import TestSupport
import Testing

import struct Foundation.Data

@testable import SQLiteStore

struct ClockMemoryTests {
    private let folder: ScratchFolder
    private let driver = DriverID("driver")

    init() throws {
        folder = try ScratchFolder()
    }

    @Test(arguments: [
        ClockMemory(), ClockMemory(lastCorrectionMilliseconds: -7_200_000, sawRightClock: true),
        ClockMemory(
            sawRightClock: true,
            loneSkews: [Int64.min, -1, 0, 1_234_567_890_123].map {
                .init(skewMilliseconds: $0, receivedAt: Moment(millisecondsSinceEpoch: ~$0), count: 2)
            }),
        ClockMemory(loneSkews: [.init(skewMilliseconds: .max, receivedAt: .sample, count: 1)]),
    ])
    func `what is remembered comes back from its bytes`(_ memory: ClockMemory) {
        let again = ClockMemory(
            lastCorrectionMilliseconds: memory.lastCorrectionMilliseconds, bytes: memory.bytes)
        #expect(again == memory)
    }

    @Test(arguments: [[], [2], [1, 0], [UInt8](repeating: 0, count: 17), [UInt8](repeating: 0, count: 86)])
    func `bytes of another form remember nothing`(_ bytes: [UInt8]) {
        #expect(ClockMemory(lastCorrectionMilliseconds: 5, bytes: bytes) == ClockMemory(lastCorrectionMilliseconds: 5))
    }

    private func store(_ key: String, receivedAt: Moment, stampedAgo: Int, in store: SQLiteEventStore) async throws {
        var submission = EventSubmission.sample(
            .chargerTargeted, key: key, at: receivedAt.advanced(bySeconds: -stampedAgo))
        submission.timestamp = submission.occurredAt
        let outcome = try await store.appended(.sample(submission, of: driver, receivedAt: receivedAt))
        guard case .stored = outcome else { throw Unexpected(description: "\(outcome)") }
    }

    private func rules(_ store: SQLiteEventStore) async throws -> [ClockRule?] {
        try await store.read { db in
            try Int64.fetchAll(db, sql: "SELECT clock_rule FROM event ORDER BY id").map(ClockRule.init(code:))
        }
    }

    @Test func `the clocks of a driver are known after a restart`() async throws {
        let start = Moment.sample
        for (index, stampedAgo) in [0, 7200, 7200, 7200, 900].enumerated() {
            let store = try SQLiteEventStore(path: folder.file("db"), nowMilliseconds: 0)
            try await self.store(
                "k\(index)", receivedAt: start.advanced(bySeconds: index * 100), stampedAgo: stampedAgo, in: store)
            await store.close()
        }
        let store = try SQLiteEventStore(path: folder.file("db"), nowMilliseconds: 0)
        #expect(
            try await rules(store) == [
                .rightClock, .loneTimestamp, .recentEventsAgree, .knownCorrection, .loneTimestamp,
            ])
        await store.close()
    }

    @Test func `of an older database, events with a right clock are remembered, and those of before have no rule`()
        async throws
    {
        let path = folder.file("db")
        let before = MigrationRun(Migration.all.filter { $0.number < 8 })
        let pool = try DatabaseOpening.open(path: path, migrations: before, nowMilliseconds: 0)
        try await pool.write { db in
            try db.execute(
                sql: """
                    INSERT INTO driver (id, driver_id, created_at_ms, last_correction_ms)
                        VALUES (1, 'driver', 0, NULL), (2, 'behind', 0, 7200000), (3, 'silent', 0, NULL);
                    INSERT INTO settings_version VALUES (1, 'v', 900, 3600, '{}', 0);
                    INSERT INTO event_kind VALUES (1, 'chargerTargeted', 0, 'x', '1.0', 'ios_native', NULL, 0, 0);
                    """)
            for (driver, sentAt, skew) in [(1, 5, 9000), (1, 5, -400_000), (2, 5, 7_200_000), (3, nil, 0)]
                as [(Int, Int?, Int)]
            {
                try db.execute(
                    sql: """
                        INSERT INTO event (driver, idempotency_key, digest, kind, settings_version, occurred_at,
                            occurred_at_ms, corrected_at_ms, skew_ms, sent_at_ms, received_at_ms, transition,
                            implies_reset, after_state)
                        VALUES (?, ?, zeroblob(32), 1, 1, 'x', 0, 0, ?, ?, 0, 0, 0, 0)
                        """,
                    arguments: [driver, "k\(skew)", skew, sentAt])
            }
        }
        try pool.close()
        let store = try SQLiteEventStore(path: path, nowMilliseconds: 0)
        let memories = try await store.read { db in
            try Row.fetchAll(db, sql: "SELECT last_correction_ms, clock_memory FROM driver ORDER BY id").map { row in
                ClockMemory(lastCorrectionMilliseconds: row[0], bytes: (row[1] as Data?).map { Array($0) } ?? [])
            }
        }
        #expect(
            memories == [
                ClockMemory(sawRightClock: true), ClockMemory(lastCorrectionMilliseconds: 7_200_000), ClockMemory(),
            ])
        await store.close()
    }
}
