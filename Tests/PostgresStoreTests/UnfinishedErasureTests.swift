// A deletion of a driver rewrites the driver's events in pieces, and gives each rewritten event a new id. These tests
// do other work on the driver between two pieces, when about half of the events are rewritten. This work must not write
// an old id into a rewritten row.

import Engine
import JourneyModel
import SharedTables
import TestSupport
import Testing

@testable import PostgresStore

struct UnfinishedErasureTests {
    private static let now = Moment.sample.advanced(bySeconds: 9000)

    enum OtherWork: CaseIterable {
        case retention, retentionOfSessions, correction, refold
        /// A refold that found the driver before the deletion rewrote the first rows.
        case refoldUnderWay
    }

    @Test(arguments: OtherWork.allCases)
    func `nothing of the driver is left, whatever happens meanwhile`(_ work: OtherWork) async throws {
        let database = try await StoreFixture.database()
        let driver = DriverID("drv_marta")
        try await StoreFixture.withStores(on: database, digests: ErasureTests.digests) { (stores) async throws in
            let store = stores[0]
            for request in ErasureTests.requests(900, of: driver, word: "marta") { _ = await store.append([request]) }
            if work == .refold || work == .refoldUnderWay {
                try await database.rows("UPDATE driver SET rules = rules - 1")
            }
            let row = try #require(
                try await ErasureTests.begin(driver, pseudonym: "erased-1", at: Self.now, in: store))
            try await Self.run(work, on: row, in: store, database)
            try await store.completeErasure(of: row)
            #expect(try await store.find(["marta"]) == [])
            #expect(try await store.leftovers(ofReceipt: "r") == [])
            // A refold may have left out this driver during the deletion, so the driver is refolded now.
            var refold = RefoldRequest(now: Self.now)
            while let next = try await store.refold(refold).next { refold.after = next }
            #expect(try await database.rows("SELECT count(*) FROM driver WHERE rules < \(Fold.rulesVersion)") == ["0"])
            #expect(try await store.check { _, _ in }.problems == [])
            #expect(try await store.find(["marta"]) == [])
        }
    }

    private static func run(
        _ work: OtherWork, on row: Int64, in store: PostgresEventStore, _ database: StoreFixture.Database
    ) async throws {
        switch work {
        case .retention:
            let found = try await database.rows(
                """
                SELECT position, corrected_at_ms FROM event WHERE after_session_id LIKE 'marta%'
                ORDER BY corrected_at_ms DESC LIMIT 1
                """)
            let numbers = try #require(found.first).split(separator: "|").compactMap { Int64($0) }
            let event = AgedEvent(
                id: numbers[0], driver: row, correctedAt: Moment(millisecondsSinceEpoch: numbers[1]))
            #expect(try await store.delete([event]) == 0)
        case .retentionOfSessions:
            let sessions = try await store.agedSessions(openedBefore: Self.now, after: 0, limit: 1000)
            #expect(sessions == [])
            // These sessions were found before the deletion began.
            let all = try await database.rows("SELECT number FROM session").compactMap { Int64($0) }
            #expect(try await store.delete(sessions: all[...], openedBefore: Self.now) == 0)
        case .correction:
            let settings = Settings(gracePeriodSeconds: 1, hardTimeoutSeconds: 2)
            _ = try await store.record(VersionedSettings(settings), at: Self.now)
            let order = CorrectionOrder(since: .sample, settings: .current)
            let outcome = try await store.begin(order, note: SettingsChangeNote(), at: Self.now)
            guard case .begun(let correction, _) = outcome else {
                Issue.record("\(outcome)")
                return
            }
            var request = RefoldRequest(correction: correction.id, now: Self.now)
            while let next = try await store.refold(request).next { request.after = next }
        case .refold:
            #expect(try await store.refold(RefoldRequest(now: Self.now)).next == nil)
        case .refoldUnderWay:
            let name = try #require(try await database.rows("SELECT driver_id FROM driver").first)
            let counts = try await store.refold(DriverID(name), DriverRefold(now: Self.now)).get()
            #expect(counts == RefoldCounts())
        }
    }
}
