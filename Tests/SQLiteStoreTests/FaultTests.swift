// Tests in which the n-th write or the n-th sync fails, for every n. The tests then check the files that a crash would
// leave. A checkpoint runs after every few pages, so that faults also occur during checkpoints.
//
// An acknowledged event must be stored. If the store answered that an event is not stored, no file may contain it. When
// the disk works again, the store must work again too (contract, sections 3 and 5).

import Engine
import Foundation
import GRDB
import JourneyModel
import TestSupport
import Testing

@testable import SQLiteStore

struct FaultTests {
    private let driver = DriverID("driver")

    /// With a `failureCount` of 1, one disk operation fails. With `.max`, all later operations fail too.
    @Test(arguments: FaultScript.Fault.allCases, [1, .max])
    func `every failing operation keeps the promise of its answer`(
        _ fault: FaultScript.Fault, failureCount: Int
    ) async throws {
        var answers: Set<String> = []
        // In each round, the first fault comes one operation later. A round without a fault shows that every operation
        // is covered. One round has fewer than 1000 disk operations.
        for operationsBefore in 0..<1000 {
            let round = try Round(fault, after: operationsBefore, failureCount: failureCount)
            let hasFailed = try await round.play(of: driver)
            answers.formUnion(round.answers)
            if !hasFailed {
                #expect(operationsBefore > 3, "hardly anything was made to fail")
                // If the sync of a commit fails, a recovery may still find the commit's frames in the WAL. The next
                // successful commit overwrites them, so the events are certainly not stored. If every sync fails, the
                // outcome stays unknown.
                let isInDoubt = fault == .syncError && failureCount > 1
                #expect(answers == ["acknowledged", isInDoubt ? "unknown" : "unavailable"])
                return
            }
        }
        Issue.record("the faults never ended")
    }

    @Test func `a full database refuses, and takes events again when there is room`() async throws {
        let folder = try ScratchFolder()
        let pool = try DatabaseOpening.open(path: folder.file("db"), nowMilliseconds: 0)
        let store = try SQLiteEventStore(pool: pool)
        _ = try await store.appended(.sample(.sample(.chargerTargeted, key: "before"), of: driver))
        try await pool.writeWithoutTransaction { db in
            let pages = try Int.fetchOne(db, sql: "PRAGMA page_count") ?? 0
            try db.execute(sql: "PRAGMA max_page_count = \(pages)")
        }
        let large = EventSubmission.sample(
            .chargerTargeted, key: "large", metadata: "{\"a\":\"\(String(repeating: "x", count: 8000))\"}")
        await #expect(throws: StoreFailure.self) { try await store.appended(.sample(large, of: driver)) }
        try await pool.writeWithoutTransaction { db in try db.execute(sql: "PRAGMA max_page_count = 1000000") }
        guard case .stored = try await store.appended(.sample(large, of: driver)) else {
            Issue.record("not stored after there was room")
            return
        }
        #expect(try await store.eventCount() == 2)
        await store.close()
    }

    @Test func `a moved database file takes no events until it is back`() async throws {
        let folder = try ScratchFolder()
        let store = try SQLiteEventStore(pool: DatabaseOpening.open(path: folder.file("db"), nowMilliseconds: 0))
        _ = try await store.appended(.sample(.sample(.chargerTargeted, key: "before"), of: driver))
        try FileManager.default.moveItem(atPath: folder.file("db"), toPath: folder.file("moved"))
        for content in [nil, Data()] {
            if let content { try content.write(to: URL(fileURLWithPath: folder.file("db"))) }
            let outcome = await store.append(.sample(.sample(.chargerTargeted, key: "moved"), of: driver))
            guard case .failed(.unavailable(let reason)) = outcome else {
                Issue.record("\(outcome)")
                return
            }
            #expect(reason.contains("moved, replaced or deleted"))
            await #expect(throws: StoreFailure.self) { try await store.checkWritable() }
        }
        try FileManager.default.removeItem(atPath: folder.file("db"))
        try FileManager.default.moveItem(atPath: folder.file("moved"), toPath: folder.file("db"))
        guard case .stored = await store.append(.sample(.sample(.chargerTargeted, key: "moved"), of: driver)) else {
            Issue.record("not stored after the file was back")
            return
        }
        #expect(try await store.eventCount() == 2)
        await store.close()
    }

    @Test func `one event that the database refuses does not take its neighbours along`() async throws {
        let folder = try ScratchFolder()
        let pool = try DatabaseOpening.open(path: folder.file("db"), nowMilliseconds: 0)
        try await pool.write { db in
            try db.execute(
                sql: """
                    CREATE TRIGGER poison AFTER INSERT ON event_row WHEN new.key = 'b'
                    BEGIN SELECT RAISE(ABORT, 'poison'); END
                    """)
        }
        let store = try SQLiteEventStore(pool: pool)
        let outcomes = await store.append(
            ["a", "b", "c"].map { key in
                .sample(.sample(.sessionRestored, key: key, session: "session-\(key)"), of: driver)
            })
        guard case .stored = outcomes[0], case .failed(.unavailable) = outcomes[1],
            case .stored = outcomes[2]
        else {
            Issue.record("\(outcomes)")
            return
        }
        #expect(try await store.eventCount() == 2)
        let sessions = try await pool.read { db in
            try String.fetchAll(db, sql: "SELECT session_id FROM session ORDER BY 1")
        }
        #expect(sessions == ["session-a", "session-c"])
        await store.close()
    }

    @Test func `an event of a driver whose row cannot be read does not take its neighbours along`() async throws {
        let folder = try ScratchFolder()
        let store = try SQLiteEventStore(path: folder.file("db"), nowMilliseconds: 0)
        let drivers = ["a", "b", "c"].map { DriverID($0) }
        for driver in drivers {
            _ = try await store.appended(.sample(.sample(.chargerTargeted, key: "before"), of: driver))
        }
        try await DatabaseQueue(path: folder.file("db")).write { db in
            try db.execute(sql: "UPDATE driver SET state = 99 WHERE driver_id = 'b'")
        }
        let outcomes = await store.append(
            drivers.map { driver in .sample(.sample(.chargerTargeted, key: "after"), of: driver) })
        guard case .stored = outcomes[0], case .failed(.unavailable) = outcomes[1], case .stored = outcomes[2] else {
            Issue.record("\(outcomes)")
            return
        }
        #expect(try await store.eventCount() == 5)
        await store.close()
    }
}

/// One database, from its creation on, with one scripted fault.
private final class Round {
    private let folder: ScratchFolder
    private let script = FaultScript()
    private let store: SQLiteEventStore
    private let fault: FaultScript.Fault
    private let operationsBefore: Int
    private let failureCount: Int
    private(set) var answers: Set<String> = []

    init(_ fault: FaultScript.Fault, after operationsBefore: Int, failureCount: Int) throws {
        folder = try ScratchFolder()
        try FaultyFileSystem.watch(folder.path, script)
        let pool = try DatabaseOpening.open(path: folder.file("db"), nowMilliseconds: 0)
        // Empty the WAL, so that the first commit must make the file longer. Faults also affect these writes.
        try pool.writeWithoutTransaction { db in try db.execute(sql: "PRAGMA wal_checkpoint(TRUNCATE)") }
        store = try SQLiteEventStore(
            pool: pool, checkpoints: Checkpointer.Pace(pagesMin: 12, step: 3, pause: 0),
            newestKeys: NewestKeys(countMax: 1))
        self.fault = fault
        self.operationsBefore = operationsBefore
        self.failureCount = failureCount
    }

    /// Returns false if no fault occurred.
    func play(of driver: DriverID) async throws -> Bool {
        let events = SampleJourney.whole(prefix: "k", session: "session")
        let requests = events.map { AppendRequest.sample($0, of: driver) }
        script.arm(fault, after: operationsBefore, failureCount: failureCount)
        var outcomes: [EventOutcome] = []
        for group in [requests[0..<3], requests[3..<6], requests[6...]] { outcomes += await store.append(Array(group)) }
        let hasFailed = script.hasFailed
        try folder.copyDatabase("db", to: "crashed")
        script.disarm()
        try await check(outcomes, of: requests)

        for request in requests { _ = try await store.appended(request) }
        #expect(try await store.eventCount() == requests.count, "\(self) after the disk was well again")
        let states = try await store.timeline(of: driver).map(\.state)
        #expect(states.last == .sessionEnded, "\(self)")
        await store.close()
        return hasFailed
    }

    private func check(
        _ outcomes: [EventOutcome], of requests: [AppendRequest]
    ) async throws {
        let crashed = try SQLiteEventStore(path: folder.file("crashed"), nowMilliseconds: 0)
        for (outcome, request) in zip(outcomes, requests) {
            let found = try await crashed.lookUp(request.submission, of: request.driver)
            switch outcome {
            case .failed(.unavailable), .failed(.driverErased): #expect(found == nil, "\(self): refused and stored")
            case .failed(.unknown): break
            case .failed(.cancelled): Issue.record("\(self): an append is never cancelled")
            default: #expect(found != nil, "\(self): acknowledged and lost")
            }
            answers.insert(outcome.kind)
        }
        await crashed.close()
    }
}

extension Round: CustomStringConvertible {
    var description: String { "\(fault) after \(operationsBefore), \(failureCount) times" }
}

extension EventOutcome {
    fileprivate var kind: String {
        switch self {
        case .failed(.unavailable): "unavailable"
        case .failed(.unknown): "unknown"
        case .failed(.driverErased): "erased"
        case .failed(.cancelled): "cancelled"
        default: "acknowledged"
        }
    }
}
