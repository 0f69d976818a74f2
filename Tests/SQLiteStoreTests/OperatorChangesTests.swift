// Tests of operator commands on the file of a running server. The commands find, sign out and delete drivers. After a
// restore, a command repeats the deletions that the restore undid.

import Foundation
import GRDB
import JourneyModel
import TestSupport
import Testing

@testable import Identity
@testable import SQLiteStore
@testable import SharedTables

struct OperatorChangesTests {
    private let now = AccountFixture.start

    /// Opens a second store on the fixture's file, as a command's process does. The caller must close this store.
    private func beside(_ fixture: AccountFixture) throws -> StoredAccounts {
        let store = try SQLiteEventStore(existing: fixture.folder.file("db"), digests: fixture.digests)
        return StoredAccounts(store: store, digests: fixture.digests)
    }

    @Test func `a driver is found by id, number and email, with what is known`() async throws {
        let fixture = try await AccountFixture()
        let pair = try await fixture.signIn(phone: "+4915112345678")
        let caller = try await fixture.caller(pair)
        let change = ProfileChange(name: .set("Jonas"), email: .set("Jonas@Mail.example"))
        _ = try await fixture.own.change(change, of: caller, from: .at(now))
        _ = try await fixture.store.appended(.sample(.sample(.chargerTargeted, key: "k", at: now), of: caller.driver))
        _ = try await fixture.signInWithApple()
        let records = try DriverRecords(path: fixture.folder.file("db"))
        let number = try #require(PhoneNumber("0049 151 123 456 78"))
        let found = try records.find(.phone(number))
        #expect(found.map(\.id) == [caller.driver])
        #expect(try records.find(.email("jonas@mail.EXAMPLE")) == found)
        #expect(try records.find(.id(caller.driver)) == found)
        let driver = try #require(found.first)
        #expect(driver.name == "Jonas" && driver.phone == "+4915112345678" && driver.role == "driver")
        #expect(driver.signInSessions == 1 && driver.events == 1 && driver.devices == 0)
        #expect(try records.find(.email("nobody@mail.example")) == [])
        records.close()
        await fixture.close()
    }

    @Test func `a sign-out on the file ends sessions in the running server, and is audited`() async throws {
        let fixture = try await AccountFixture()
        let pair = try await fixture.signIn(phone: "+4915112345678")
        let driver = pair.user.id
        #expect(await fixture.refusal(of: pair.accessToken) == nil)
        let accounts = try beside(fixture)
        #expect(try await accounts.endAllByOperator(of: driver, at: now) == 1)
        #expect(try await accounts.endAllByOperator(of: DriverID("nobody"), at: now) == nil)
        await (accounts.store as? SQLiteEventStore)?.close()
        await fixture.memory.catchUp()
        #expect(await fixture.refusal(of: pair.accessToken) == .revoked)
        #expect(try await fixture.audit().last == "operator_sign_out done")
        await fixture.close()
    }

    @Test func `a deletion on the file leaves nothing, and says who did it`() async throws {
        let fixture = try await AccountFixture()
        let pair = try await fixture.signIn(phone: "+4915112345678")
        let driver = pair.user.id
        _ = try await fixture.store.appended(.sample(.sample(.chargerTargeted, key: "key-of-it", at: now), of: driver))
        let receipt = Accounts.receipt(at: now)
        let accounts = try beside(fixture)
        #expect(try await accounts.eraseByOperator(driver, receipt: receipt))
        #expect(try await !accounts.eraseByOperator(DriverID("nobody"), receipt: receipt))
        #expect(await accounts.store.finishRemoval(within: .seconds(5)))
        await (accounts.store as? SQLiteEventStore)?.close()
        await fixture.memory.catchUp()
        #expect(await fixture.refusal(of: pair.accessToken) == .revoked)
        let scan = ErasureScan(path: fixture.folder.file("db"))
        #expect(try scan.find([driver.rawValue, "4915112345678", "key-of-it"]) == [])
        #expect(try scan.leftovers(ofReceipt: receipt.id) == [])
        #expect(
            try await fixture.audit().suffix(2) == ["operator_erasure done \(receipt.id)", "erased done \(receipt.id)"])
        let records = try DriverRecords(path: fixture.folder.file("db"))
        #expect(try records.erasedAt(driver, fixture.digests) == now)
        #expect(try records.erasedAt(DriverID("drv_never"), fixture.digests) == nil)
        records.close()
        await fixture.close()
    }

    /// A reader prevents the command from truncating the WAL. After the reader has ended, the server truncates the WAL
    /// at its next write.
    @Test func `what a command could not cut from the WAL, the running server cuts`() async throws {
        let fixture = try await AccountFixture()
        let driver = try await fixture.signIn(phone: "+4915112345678").user.id
        let path = fixture.folder.file("db")
        var configuration = Configuration()
        configuration.allowsUnsafeTransactions = true
        let reader = try DatabaseQueue(path: path, configuration: configuration)
        try await reader.writeWithoutTransaction { db in
            try db.execute(sql: "BEGIN")
            _ = try Int.fetchOne(db, sql: "SELECT count(*) FROM driver")
        }
        let accounts = try beside(fixture)
        _ = try await accounts.eraseByOperator(driver, receipt: Accounts.receipt(at: now))
        #expect(await !accounts.store.finishRemoval(within: .milliseconds(300)))
        await (accounts.store as? SQLiteEventStore)?.close()
        let scan = ErasureScan(path: path)
        #expect(try scan.find([driver.rawValue]) != [])
        try await reader.writeWithoutTransaction { db in try db.execute(sql: "COMMIT") }
        try reader.close()
        _ = try await fixture.store.appended(
            .sample(.sample(.chargerTargeted, key: "k", at: now), of: DriverID("other")))
        #expect(await fixture.store.finishRemoval(within: .seconds(5)))
        #expect(try scan.find([driver.rawValue]) == [])
        await fixture.close()
    }

    @Test func `commands that change something want the schema of this binary, and a file`() async throws {
        let folder = try ScratchFolder()
        #expect(throws: RecordsUnreadable.self) {
            try SQLiteEventStore(existing: folder.file("none"), digests: nil)
        }
        #expect(!DatabaseCopy.exists(folder.file("none")))
        let older = MigrationRun(Array(Migration.all.dropLast()))
        try DatabaseOpening.open(path: folder.file("older"), migrations: older, nowMilliseconds: 0).close()
        let known = Migration.all.count
        #expect(throws: MigrationRefusal.databaseIsOlder(applied: known - 1, known: known)) {
            try SQLiteEventStore(existing: folder.file("older"), digests: nil)
        }
    }

    // MARK: After a restore

    @Test(arguments: [false, true])
    func `deletions are repeated after a restore, once, with their receipts`(fromList: Bool) async throws {
        let fixture = try await AccountFixture()
        let path = fixture.folder.file("db")
        let early = try await fixture.signIn(phone: "+4915100000001").user.id
        let gone = try await fixture.signIn(phone: "+4915100000002").user.id
        let stays = try await fixture.signIn(phone: "+4915100000003").user.id
        func erase(_ driver: DriverID, _ seconds: Int) async throws -> ErasureReceipt {
            try await fixture.own.erase(Caller(driver: driver), from: .at(now.advanced(bySeconds: seconds)))
        }
        _ = try await erase(early, 1)
        let backup = fixture.folder.file("backup")
        try DatabaseBackup.make(of: path, to: backup, replacing: false) { _ in }
        let receipt = try await erase(gone, 2)
        // This driver's tokens come from another service. The database has no row of the driver.
        _ = try await erase(DriverID("external"), 3)
        await fixture.close()

        #expect(try DatabaseBackup.planRestore(of: backup, to: path).undoneErasures == 2)
        let old = try #require(try DatabaseBackup.restore(backup, to: path, stamp: "then") { _ in })
        var recorded = try ErasureRecords.read(old)
        if fromList {
            let list = fixture.folder.file("list")
            try recorded.map { $0.line + "\n" }.joined().write(toFile: list, atomically: true, encoding: .utf8)
            #expect(try ErasureRecords.read(list) == recorded)
            recorded = try ErasureRecords.read(list)
        }
        #expect(recorded.count == 3 && recorded[1].receipt == receipt.id)
        #expect(recorded.allSatisfy { !$0.line.contains("drv_") })

        let again = try await AccountFixture(in: fixture.folder)
        let later = now.advanced(bySeconds: 100)
        let accounts = try beside(again)
        let missing = try await accounts.missing(recorded)
        #expect(missing.drivers.map(\.driver) == [gone])
        #expect(missing.withoutDriver.count == 1)
        let repeated = try await OperatorAccounts(store: accounts).repeatErasures(recorded, at: later)
        #expect(repeated.drivers.map(\.driver) == [gone] && repeated.withoutDriver.count == 1)
        let none = try await accounts.missing(recorded)
        #expect(none.drivers.isEmpty && none.withoutDriver.isEmpty)
        await (accounts.store as? SQLiteEventStore)?.close()
        let scan = ErasureScan(path: path)
        #expect(try scan.find([gone.rawValue, "4915100000002"]) == [])
        #expect(try scan.leftovers(ofReceipt: receipt.id) == [])
        #expect(try scan.find([stays.rawValue]) != [])
        let external = Caller(driver: DriverID("external"))
        await #expect(throws: TokenRefusal.revoked) {
            try await again.memory.admit(external, issuedAt: Double(now.millisecondsSinceEpoch / 1000))
        }
        await again.close()
    }

    @Test func `the search for missing deletions reads no other tombstones`() async throws {
        let fixture = try await AccountFixture()
        let (digests, now) = (fixture.digests, self.now)
        let (known, unknown) = (digests.driver(DriverID("known")), digests.driver(DriverID("unknown")))
        try await fixture.accounts.change { (db: any SQLTransaction) in
            for digest in [known] + (0..<2000).map({ digests.driver(DriverID("\($0)")) }) {
                try Erasing.addTombstone(digest, at: now, db)
            }
        }
        let asked = [known, unknown].map { RecordedErasure(digest: $0, at: now, receipt: nil) }
        let (missing, rowCount) = try await fixture.accounts.read { (db: any SQLTransaction) in
            let counting = CountingTransaction(db)
            let missing = try MissingErasures(asked, digests, counting)
            return (missing, counting.rowCount)
        }
        #expect(missing.withoutDriver == [asked[1]] && missing.drivers.isEmpty)
        #expect(rowCount == 1)
        await fixture.close()
    }

    /// Counts the rows that are fetched.
    private final class CountingTransaction: SQLTransaction {
        private let db: any SQLTransaction
        private(set) var rowCount = 0

        init(_ db: any SQLTransaction) {
            self.db = db
        }

        func execute(sql: String, arguments: SQLArguments) throws -> Int {
            try db.execute(sql: sql, arguments: arguments)
        }

        func fetchAll(sql: String, arguments: SQLArguments) throws -> [SQLRow] {
            let rows = try db.fetchAll(sql: sql, arguments: arguments)
            rowCount += rows.count
            return rows
        }

        func addDriver(_ driver: DriverID, at now: Moment) throws -> Int64 { try db.addDriver(driver, at: now) }

        func session(_ sessionID: String) throws -> ReferencedSession? { try db.session(sessionID) }
    }

    @Test func `who came back after a deletion is not deleted again`() async throws {
        let fixture = try await AccountFixture()
        let driver = DriverID("external")
        let receipt = try await fixture.own.erase(Caller(driver: driver), from: .at(now))
        let recorded = try ErasureRecords.read(fixture.folder.file("db"))
        #expect(recorded.map(\.receipt) == [receipt.id])
        try await fixture.store.change { db in try db.execute(sql: "DELETE FROM erased_driver") }
        let later = now.advanced(bySeconds: 3600)
        _ = try await fixture.store.appended(
            .sample(.sample(.chargerTargeted, key: "k", at: later), of: driver, receivedAt: later))
        let missing = try await fixture.accounts.missing(recorded)
        #expect(missing.drivers.isEmpty && missing.withoutDriver == recorded)
        await fixture.close()
    }

    @Test(arguments: ["", "x", "2026-11-20T10:00:00Z abc -", "yesterday \(String(repeating: "0", count: 64)) -"])
    func `a line that is none of a list is refused`(_ line: String) {
        #expect(RecordedErasure(line: line) == nil)
    }
}
