// Tests of the deletion of a driver with many rows. One transaction rewrites only a few rows, and other drivers' events
// are stored between the transactions. The tests measure the work in rows.
//
// Readers find none of the driver's data while the deletion is in progress. A deletion that a crash interrupts is
// completed after the restart.

import Engine
import Foundation
import GRDB
import JourneyModel
import TestSupport
import Testing

@testable import Identity
@testable import SQLiteStore
@testable import SharedTables

struct ErasureProgressTests {
    private static let rowsPerPiece = 10
    private let start = AccountFixture.start
    /// A pace without pauses between the pieces of a deletion.
    private let pace = RefoldPace(rowsPerErasurePiece: rowsPerPiece, pauseFactor: 0)
    /// A pace whose pause after the second piece is longer than the test.
    private let endless = RefoldPace(
        rowsPerErasurePiece: rowsPerPiece, pauseFactor: 1_000_000_000, quiet: .seconds(3600))
    private let driver = DriverID("external-driver")

    private func post(_ count: Int, by driver: DriverID, in fixture: AccountFixture) async throws {
        let requests = (0..<count).map { number in
            var event = EventSubmission.sample(
                .sessionRestored, key: "key-of-\(driver)-\(number)", at: start.advanced(bySeconds: number))
            event.metadata = #"{"plate":"PLATE"}"#
            return AppendRequest.sample(event, of: driver, receivedAt: start.advanced(bySeconds: 10_000))
        }
        for outcome in await fixture.store.append(requests) {
            guard case .stored = outcome else { throw Unexpected(description: "\(outcome)") }
        }
    }

    /// Returns the number of rewritten events and whether a deletion is in progress. Both come from one snapshot.
    private func reached(_ fixture: AccountFixture) async throws -> (rows: Int, isUnderWay: Bool) {
        try await fixture.store.read { db in
            (
                try Int.fetchOne(db, sql: "SELECT count(*) FROM event WHERE idempotency_key LIKE 'erased-%'") ?? 0,
                try !ErasureProgress.unfinished(nil, db).isEmpty
            )
        }
    }

    @Test func `one transaction rewrites no more rows than its bound, and others' events come in between`()
        async throws
    {
        let fixture = try await AccountFixture(pace: pace)
        try await post(400, by: driver, in: fixture)
        let receipt = Task { [own = fixture.own, driver, start] in
            try await own.erase(Caller(driver: driver), from: .at(start.advanced(bySeconds: 10_000)))
        }
        var seen: Set<Int> = []
        var (number, otherCount) = (0, 0)
        while true {
            let (rows, isUnderWay) = try await reached(fixture)
            // A piece has ten rows, and `rows` counts the rewritten events. One row of the first piece is the
            // deletion's audit entry, so `rows` is one less than a multiple of ten.
            if isUnderWay { #expect((rows + 1) % Self.rowsPerPiece == 0 || rows == 400) }
            seen.insert(rows)
            if rows > 0, !isUnderWay { break }
            number += 1
            let other = AppendRequest.sample(
                .sample(.chargerTargeted, key: "o\(number)", at: start.advanced(bySeconds: number)),
                of: DriverID("other"), receivedAt: start.advanced(bySeconds: 10_000))
            guard case .stored = await fixture.store.append(other) else {
                Issue.record("another driver's event is refused")
                break
            }
            if isUnderWay { otherCount += 1 }
        }
        #expect(seen.count > 2 && otherCount > 1, "no event was stored between two pieces")
        let id = try await receipt.value.id
        #expect(try ErasureScan(path: fixture.folder.file("db")).leftovers(ofReceipt: id) == [])
        await fixture.close()
    }

    /// Stores 35 rows of each kind of which a driver can have many: audit entries, sessions, events, chargers and event
    /// names.
    private func storeMany(of driver: DriverID, in fixture: AccountFixture) async throws {
        for number in 0..<35 {
            var event = EventSubmission.sample(
                .diagnostic("saw_\(number)"), key: "key-\(number)", session: "session-\(number)",
                charger: "place-\(number)", at: start.advanced(bySeconds: number))
            event.sequence = 4_915_112_345_678
            _ = try await fixture.store.appended(
                .sample(event, of: driver, receivedAt: start.advanced(bySeconds: 10_000)))
        }
        try await fixture.store.change { db in
            for number in 0..<35 {
                try db.execute(
                    sql: """
                        INSERT INTO audit (at_ms, action, outcome, driver, sid, address)
                        SELECT 1, 'refresh', 'done', id, 'sid-\(number)', '198.51.100.\(number)' FROM driver
                        WHERE driver_id = ?
                        """, arguments: [driver.rawValue])
            }
        }
    }

    @Test func `every piece changes few rows, of whatever a driver has many`() async throws {
        let fixture = try await AccountFixture(pace: pace)
        try await storeMany(of: driver, in: fixture)
        let erasing = Erasing(
            receipt: ErasureReceipt(id: "rcp_1", deletedAt: start), pseudonym: "erased-1", digests: fixture.digests,
            events: fixture.store)
        func changed(
            _ change: @escaping @Sendable (Database) throws -> ErasurePiece?
        ) async throws -> (piece: ErasurePiece?, rows: Int) {
            try await fixture.store.change { db in
                let before = db.totalChangesCount
                return (try change(db), db.totalChangesCount - before)
            }
        }
        var (piece, rows) = try await changed { [driver] db in
            _ = try erasing.erase(driver, SQLiteTransaction(db))
            return nil
        }
        // The first transaction changes the driver's row, the records of the deletion, and the rows of the first piece.
        #expect(rows <= Self.rowsPerPiece + 10)
        var pieces: [Int] = []
        while true {
            (piece, rows) = try await changed { db in
                var progress = try ErasureProgress(of: 1, db)
                return try progress?.advance(rowsMax: Self.rowsPerPiece, mayComplete: false, db)
            }
            guard let piece else { break }
            pieces.append(piece.rowCount)
            // Each row of a piece causes at most three changes. One more change updates the row with the deletion's
            // progress.
            //
            // An event causes three changes: its old key is removed, the row is rewritten, and the new key is added. A
            // text that only this driver used causes two: the text is overwritten, and the driver's use of it is
            // deleted.
            #expect(piece.rowCount <= Self.rowsPerPiece && rows <= 3 * Self.rowsPerPiece + 1)
        }
        // The driver has 35 rows of each of five kinds. The deletion adds one audit entry, which it also rewrites. The
        // first transaction has already handled ten of these 176 rows.
        #expect(pieces.reduce(0, +) == 5 * 35 + 1 - Self.rowsPerPiece)
        #expect(pieces.last == 0, "the last transaction only ends the deletion and truncates the WAL")
        #expect(try ErasureScan(path: fixture.folder.file("db")).leftovers(ofReceipt: "rcp_1") == [])
        await fixture.close()
    }

    /// Returns the number of pages of each transaction in the WAL. Ignores frames from before the last restart of the
    /// WAL. Their salts differ from those in the header (https://www.sqlite.org/fileformat2.html#walformat).
    private func pagesOfTransactions(inWAL path: String) throws -> [Int] {
        let wal = try [UInt8](Data(contentsOf: URL(fileURLWithPath: path)))
        guard wal.count >= 32 else { return [] }
        let frameBytes = 24 + wal[8..<12].reduce(0) { $0 << 8 | Int($1) }
        var (transactions, pages) = ([Int](), 0)
        for frame in stride(from: 32, through: wal.count - frameBytes, by: frameBytes) {
            guard wal[frame + 8..<frame + 16] == wal[16..<24] else { break }
            pages += 1
            // These four bytes are 0, except in a commit frame.
            if wal[frame + 4..<frame + 8].contains(where: { $0 != 0 }) {
                (transactions, pages) = (transactions + [pages], 0)
            }
        }
        return transactions
    }

    /// Each transaction rewrites a hundred events. These events are on few pages of the table and of each index,
    /// however many events the driver has.
    ///
    /// When SQLite balances an index, it leaves copies of entries in the unallocated space of pages. The deletion must
    /// also remove these copies (`free_space.c`).
    @Test func `each transaction of the deletion of 3,000 events writes few pages, and the WAL is empty at the end`()
        async throws
    {
        let fixture = try await AccountFixture(pace: RefoldPace(pauseFactor: 0))
        try await post(3000, by: driver, in: fixture)
        let wal = fixture.folder.file("db-wal")
        let largest = try pagesOfTransactions(inWAL: wal).max() ?? 0
        let erasing = Erasing(
            receipt: ErasureReceipt(id: "rcp_1", deletedAt: start), pseudonym: "erased-1", digests: fixture.digests,
            events: fixture.store)
        let rowsMax = RefoldPace().rowsPerErasurePiece
        _ = try await fixture.accounts.change { [driver] db in try erasing.erase(driver, db) }
        var pages: [Int] = []
        for _ in 0..<20 {
            let piece = try await fixture.store.change { (db: Database) in
                var progress = try #require(try ErasureProgress(of: 1, db))
                return try progress.advance(rowsMax: rowsMax, mayComplete: false, db)
            }
            #expect(piece.step == .events && piece.rowCount == rowsMax)
            pages.append(try #require(try pagesOfTransactions(inWAL: wal).last))
        }
        // If the deletion were a single transaction, that transaction would write every page with events of the driver.
        #expect(pages.max() ?? .max <= 40, "\(pages), and the largest of the events' transactions: \(largest)")
        let scan = ErasureScan(path: fixture.folder.file("db"))
        let traces = ["key-of-external-driver", "PLATE"]
        #expect(Set(try scan.find(traces).map(\.location)).isSuperset(of: ["event.idempotency_key", "event.metadata"]))
        #expect(try scan.find(traces).contains { $0.location.contains("db-wal, byte ") }, "removed text is in the WAL")

        #expect(try await fixture.accounts.completeErasures(of: nil) == 1)
        #expect(fixture.store.logBytes() == 0)
        let left = try scan.find(traces)
        #expect(left == [], "in the tables, file and WAL: \(left)")
        #expect(try await fixture.store.eventCount() == 3000)
        // The writer still has pages in memory. When other drivers' events make it write these pages, no deleted text
        // may come back to the file.
        try await post(300, by: DriverID("other"), in: fixture)
        #expect(try #require(fixture.store.logBytes()) > 0)
        #expect(try scan.find(traces.prefix(1).map { $0 + "-" }) == [], "after others' events")
        await fixture.close()
    }

    /// Stores many events of two drivers, and begins the deletion of both.
    private func beginTwo(in fixture: AccountFixture) async throws {
        for (number, driver) in [driver, DriverID("second")].enumerated() {
            try await post(600, by: driver, in: fixture)
            try await fixture.accounts.erase(
                driver, receipt: ErasureReceipt(id: "rcp_\(number)", deletedAt: start),
                pseudonym: "erased-\(number)", from: .at(start.advanced(bySeconds: 10_000)))
        }
    }

    @Test func `a server that stops does not wait for deletions, and the next start completes them`() async throws {
        let fixture = try await AccountFixture(pace: pace)
        try await beginTwo(in: fixture)
        let loop = Task { [accounts = fixture.accounts] in
            await UnfinishedErasures(
                store: accounts, completed: { _ in }, failed: { Issue.record("\($0)") }
            ).run()
        }
        while try await reached(fixture).rows <= 4 * Self.rowsPerPiece { await Task.yield() }
        loop.cancel()
        await loop.value
        #expect(try await reached(fixture).rows < 1200)
        let count = try await fixture.count("erasure")
        #expect(count > 0)
        #expect(try await fixture.accounts.completeErasures(of: nil) == count)
        #expect(try await reached(fixture).rows == 1200)
        for number in 0...1 {
            let scan = ErasureScan(path: fixture.folder.file("db"))
            #expect(try scan.leftovers(ofReceipt: "rcp_\(number)") == [])
        }
        await fixture.close()
    }

    /// A draining server cancels the requests of the connections that it closes.
    @Test func `a deletion whose request is cancelled stops, and is completed in the background`() async throws {
        let fixture = try await AccountFixture(pace: pace)
        try await post(1200, by: driver, in: fixture)
        let request = Task { [own = fixture.own, driver, start] in
            try await own.erase(Caller(driver: driver), from: .at(start.advanced(bySeconds: 10_000)))
        }
        while try await reached(fixture).rows <= 2 * Self.rowsPerPiece { await Task.yield() }
        request.cancel()
        await #expect(throws: AccountFailure.cancelled) { try await request.value }
        let (rows, isUnderWay) = try await reached(fixture)
        #expect(rows < 1200 && isUnderWay)
        #expect(try await fixture.accounts.completeErasures(of: nil) == 1)
        await fixture.close()
    }

    /// Stops a deletion between two pieces, and makes `copies` of the database. Returns the folder, the driver's
    /// tokens, and the texts that must not be found after the deletion.
    private func cut(copies: [String]) async throws -> (folder: ScratchFolder, pair: TokenPair, traces: [String]) {
        let fixture = try await AccountFixture(pace: endless)
        let pair = try await fixture.signInWithApple("001.cut", code: "code", profile: FirstProfile(name: "Cut Person"))
        try await post(100, by: pair.user.id, in: fixture)
        let answer = Task { [own = fixture.own, caller = try await fixture.caller(pair), start] in
            try await own.erase(caller, from: .at(start.advanced(bySeconds: 10_000)))
        }
        while try await reached(fixture).rows <= Self.rowsPerPiece { await Task.yield() }
        // The driver's tokens are already rejected, although the deletion still has rows to rewrite.
        #expect(await fixture.refusal(of: pair.accessToken) == .revoked)
        for copy in copies { try fixture.folder.copyDatabase("db", to: copy) }
        await fixture.close()
        await #expect(throws: AccountFailure.self, "not complete, and not undone") { try await answer.value }
        let id = pair.user.id.rawValue
        return (fixture.folder, pair, ["key-of-\(id)", "PLATE", "001.cut", "Cut Person", id])
    }

    @Test func `a deletion that a crash cut is completed at the next start, and until then nobody meets the driver`()
        async throws
    {
        let (folder, pair, traces) = try await cut(copies: ["copy"])
        let fixture = try await AccountFixture(in: folder, database: "copy", pace: pace)
        let file = folder.file("copy")
        let scan = ErasureScan(path: file)
        let now = start.advanced(bySeconds: 10_001)
        #expect(try scan.find(traces).map(\.location).contains("event.idempotency_key"))
        let line = try #require(try await fixture.audit().last { $0.hasPrefix("erased done ") })
        let receipt = String(line.dropFirst("erased done ".count))
        #expect(try scan.leftovers(ofReceipt: receipt)?.first?.hasPrefix("the deletion is not complete") == true)
        let check = try DatabaseCheck(path: file)
        defer { check.close() }
        let report = try check.run { _ in }
        #expect(report.erasing == 1 && report.events == 100 && report.problems == [])

        // A late event of the deleted driver is refused. The same person gets a new driver id at the next sign-in.
        #expect(await fixture.refusal(of: pair.accessToken) == .revoked)
        let late = AppendRequest.sample(.sample(.chargerTargeted, key: "late"), of: pair.user.id, receivedAt: now)
        #expect(await fixture.store.append(late) == .failed(.driverErased))
        let again = try await fixture.signInWithApple("001.cut", at: now)
        #expect(again.user.id != pair.user.id)
        try await post(5, by: again.user.id, in: fixture)
        // Consumers of the event table get nothing until the deletion is complete.
        #expect(try await fixture.store.storedEvents(after: 0, limit: 10) == [])

        #expect(try await fixture.accounts.completeErasures(of: nil) == 1)
        #expect(try await fixture.accounts.completeErasures(of: nil) == 0)
        #expect(try scan.leftovers(ofReceipt: receipt) == [])
        #expect(try scan.find(Array(traces.prefix(1)) + [pair.user.id.rawValue]) == [], "in the tables, file and WAL")
        #expect(try check.run { _ in } == DatabaseCheck.Report(drivers: 2, events: 105))
        let fed = try await fixture.store.storedEvents(after: 0, limit: 200)
        #expect(fed.count == 105)
        for event in fed.prefix(100) {
            #expect(event.driver.rawValue.hasPrefix("erased-") && event.metadata == nil)
            #expect(event.eventID.hasPrefix("erased-"))
        }
        await fixture.close()
    }

    @Test func `a deletion that is requested again waits for the one in progress, and both receipts hold`()
        async throws
    {
        let (folder, pair, _) = try await cut(copies: ["copy"])
        let fixture = try await AccountFixture(in: folder, database: "copy", pace: pace)
        let operatorAccounts = OperatorAccounts(store: fixture.accounts)
        let now = start.advanced(bySeconds: 10_002)
        let receipt = try #require(try await operatorAccounts.erase(pair.user.id, at: now))
        #expect(try await fixture.count("erasure") == 0)
        let receipts = try await fixture.audit().filter { $0.hasPrefix("erased done ") }
        #expect(receipts.count == 2 && receipts.last == "erased done \(receipt.id)")
        let scan = ErasureScan(path: folder.file("copy"))
        for line in receipts {
            #expect(try scan.leftovers(ofReceipt: String(line.dropFirst("erased done ".count))) == [])
        }
        #expect(try await operatorAccounts.erase(pair.user.id, at: now) == nil, "unknown now")
        await fixture.close()
    }

    @Test func `repeating the deletions of a list completes one that was cut, and retention may run meanwhile`()
        async throws
    {
        let (folder, _, _) = try await cut(copies: ["copy"])
        let fixture = try await AccountFixture(in: folder, database: "copy", pace: pace)
        let all = start.advanced(bySeconds: 20_000)
        let aged = try await fixture.store.agedEvents(
            AgedEventsRequest(
                now: all, receivedBefore: all, forwarded: .max, unforwardedBefore: all, after: 0, limit: 60)
        ).events
        #expect(try await fixture.store.delete(aged[...]) == 60)
        let recorded = try ErasureRecords.read(database: folder.file("copy"))
        #expect(recorded.count == 1)
        let missing = try await OperatorAccounts(store: fixture.accounts).repeatErasures(recorded, at: all)
        #expect(missing.drivers.isEmpty && missing.withoutDriver.isEmpty)
        #expect(try await fixture.count("erasure") == 0)
        let receipt = try #require(recorded[0].receipt)
        #expect(try ErasureScan(path: folder.file("copy")).leftovers(ofReceipt: receipt) == [])
        let check = try DatabaseCheck(path: folder.file("copy"))
        defer { check.close() }
        #expect(try check.run { _ in } == DatabaseCheck.Report(drivers: 1, events: 40))
        await fixture.close()
    }
}
