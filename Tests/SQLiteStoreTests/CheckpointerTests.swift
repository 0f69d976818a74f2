// Tests of the checkpoints that run in the background. The WAL does not grow without bound, and nothing is lost.
// Truncating the WAL, or closing the store, does not wait until the whole WAL is copied.

import Engine
import GRDB
import JourneyModel
import TestSupport
import Testing

@testable import SQLiteStore

struct CheckpointerTests {
    private let folder: ScratchFolder

    init() throws { folder = try ScratchFolder() }

    private func store(_ pace: Checkpointer.Pace) throws -> SQLiteEventStore {
        try SQLiteEventStore(
            pool: try DatabaseOpening.open(path: folder.file("db"), nowMilliseconds: 0), checkpoints: pace)
    }

    /// Each commit writes about eight pages.
    private func post(_ numbers: Range<Int>, to store: SQLiteEventStore) async throws {
        for number in numbers {
            let driver = DriverID("d\(number % 7)")
            _ = try await store.appended(.sample(.sample(.chargerTargeted, key: "k\(number)"), of: driver))
        }
    }

    private func bytes(ofPages count: Int64) -> Int64 { count * (4096 + 24) }

    private func expectWhole(_ name: String, events: Int) async throws {
        let database = try DatabaseQueue(path: folder.file(name))
        let (integrity, count) = try await database.read { db in
            (
                try String.fetchOne(db, sql: "PRAGMA integrity_check"),
                try Int.fetchOne(db, sql: "SELECT count(*) FROM event")
            )
        }
        #expect(integrity == "ok")
        #expect(count == events)
        try database.close()
    }

    @Test(arguments: [1, 3, 64] as [Int32], [0, 200])
    func `a WAL that is written without a break is copied and begun anew`(_ step: Int32, restMax: Int) async throws {
        let store = try store(Checkpointer.Pace(pagesMin: 40, restMax: restMax, passesMax: 3, step: step, pause: 0))
        try await post(0..<600, to: store)
        // Without a reset, the WAL would have more than three thousand pages. The bound is far above the usual size,
        // because on a busy machine the reset comes late.
        #expect(try #require(store.logBytes()) < bytes(ofPages: 2500))
        try folder.copyDatabase("db", to: "crashed")
        try await expectWhole("crashed", events: 600)
        await store.close()
        #expect(store.logBytes() == nil)
        try await expectWhole("db", events: 600)
    }

    @Test func `under a reader the WAL grows, and is begun anew once the reader has gone`() async throws {
        let store = try store(Checkpointer.Pace(pagesMin: 40, pause: 0))
        try await post(0..<1, to: store)
        var configuration = Configuration()
        configuration.allowsUnsafeTransactions = true
        let reader = try DatabaseQueue(path: folder.file("db"), configuration: configuration)
        func count(then statement: String) async throws -> Int? {
            try await reader.writeWithoutTransaction { db in
                let count = try Int.fetchOne(db, sql: "SELECT count(*) FROM event")
                try db.execute(sql: statement)
                return count
            }
        }
        try await reader.writeWithoutTransaction { db in try db.execute(sql: "BEGIN") }
        #expect(try await count(then: "SELECT 1") == 1)
        try await post(1..<400, to: store)
        let grown = try #require(store.logBytes())
        #expect(grown > bytes(ofPages: 800))
        #expect(try await count(then: "COMMIT") == 1)
        try await post(400..<1000, to: store)
        #expect(try #require(store.logBytes()) < grown + bytes(ofPages: 1500))
        try reader.close()
        await store.close()
        try await expectWhole("db", events: 1000)
    }

    /// This pace copies one page per step. Each pause is 500 times as long as the step, so copying about 20 pages takes
    /// seconds.
    private static let slow = Checkpointer.Pace(pagesMin: 40, step: 1, pause: 500)

    @Test(.timeLimit(.minutes(1)))
    func `a store that is closed does not wait for the copying`() async throws {
        let store = try store(Self.slow)
        try await post(0..<10, to: store)
        let start = ContinuousClock.now
        await store.close()
        #expect(ContinuousClock.now - start < .seconds(3))
        try await expectWhole("db", events: 10)
    }

    @Test func `what leaves no trace cuts the WAL although it is being copied`() async throws {
        let store = try store(Checkpointer.Pace(pagesMin: 40, step: 1, pause: 20))
        try await post(0..<10, to: store)
        try await store.change(purgesWAL: true) { db in
            try db.execute(sql: "UPDATE driver SET created_at_ms = created_at_ms")
        }
        // The writer truncates the WAL at once, or tries again a second later.
        for _ in 0..<100 where store.logBytes() != 0 { try await Task.sleep(for: .milliseconds(50)) }
        #expect(store.logBytes() == 0)
        await store.close()
    }
}
