// Tests of connections that are lost during a transaction of SharedTables: before, during and after its COMMIT.

import Engine
import SharedTables
import Synchronization
import TestSupport
import Testing

@testable import PostgresStore

struct TableTransactionLossTests {
    private let createSQL = "CREATE TABLE sample (number int8)"
    private static let insertSQL = "INSERT INTO sample (number) VALUES (1)"

    private func insert(_ store: PostgresEventStore) async throws(StoreFailure) -> Int {
        try await store.change { db in try db.execute(sql: Self.insertSQL) }
    }

    @Test func `a change whose connection is lost before COMMIT is run again`() async throws {
        let database = try await StoreFixture.database()
        _ = try await database.rows(createSQL)
        try await StoreFixture.withStores(on: database) { (stores) async throws in
            let runs = Mutex(0)
            try await stores[0].change { db in
                try db.execute(sql: Self.insertSQL)
                if runs.withLock({ runs in
                    runs += 1
                    return runs < 3
                }) {
                    _ = try SQLRow.fetchAll(db, sql: "SELECT pg_terminate_backend(pg_backend_pid())")
                }
            }
            #expect(runs.withLock { $0 } == 3)
            let reads = Mutex(0)
            let count = try await stores[0].read { db in
                if reads.withLock({ reads in
                    reads += 1
                    return reads < 3
                }) {
                    _ = try SQLRow.fetchAll(db, sql: "SELECT pg_terminate_backend(pg_backend_pid())")
                }
                return try Int.fetchOne(db, sql: "SELECT count(*) FROM sample")
            }
            #expect(count == 1 && reads.withLock { $0 } == 3)
        }
        #expect(try await database.rows("SELECT count(*) FROM sample") == ["1"])
    }

    @Test func `a change whose COMMIT did not happen is run again`() async throws {
        let database = try await StoreFixture.database()
        _ = try await database.rows(createSQL)
        try await database.slowCommits(of: "sample")
        try await StoreFixture.withStores(on: database) { (stores) async throws in
            let runs = Mutex(0)
            async let change: Void = stores[0].change { db in
                runs.withLock { $0 += 1 }
                try db.execute(sql: Self.insertSQL)
            }
            let pid = try await database.backend(waitingFor: "PgSleep")
            _ = try await database.rows("DELETE FROM slow")
            try await database.rows("SELECT pg_terminate_backend(\(pid))")
            try await change
            #expect(runs.withLock { $0 } == 2)
        }
        #expect(try await database.rows("SELECT count(*) FROM sample") == ["1"])
    }

    @Test func `a change that was committed without an answer succeeds and is not run again`() async throws {
        let database = try await StoreFixture.databaseOnOwnServer()
        defer { database.server?.stop() }
        _ = try await database.rows(createSQL)
        try await StoreFixture.withStores(on: database) { (stores) async throws in
            try await database.setStandby("nobody")
            let runs = Mutex(0)
            async let change: Void = stores[0].change { db in
                runs.withLock { $0 += 1 }
                try db.execute(sql: Self.insertSQL)
            }
            let pid = try await database.backend(waitingFor: "SyncRep")
            try await database.rows("SELECT pg_terminate_backend(\(pid))")
            // The store has found that its transaction is committed. It now waits until the standby has the transaction
            // too.
            _ = try await database.backend(waitingFor: "SyncRep")
            try await database.setStandby("")
            try await change
            #expect(runs.withLock { $0 } == 1)
        }
        #expect(try await database.rows("SELECT count(*) FROM sample") == ["1"])
    }

    /// The transaction is committed, but the store cannot find this out. After a crash, PostgreSQL may have given the
    /// transaction's number to another transaction, so the number proves nothing.
    @Test func `after a crash of the server a lost COMMIT is unknown, and a transaction before COMMIT is run again`()
        async throws
    {
        let database = try await StoreFixture.databaseOnOwnServer()
        defer { database.server?.stop() }
        _ = try await database.rows(createSQL)
        try await StoreFixture.withStores(on: database) { (stores) async throws in
            try await database.setStandby("nobody")
            async let change = insert(stores[0])
            _ = try await database.backend(waitingFor: "SyncRep")
            try await database.server?.pause()
            try await database.server?.resume()
            do {
                _ = try await change
                Issue.record("no failure")
            } catch {
                guard case .unknown? = error as? StoreFailure else {
                    Issue.record("\(error)")
                    return
                }
            }
            try await database.setStandby("")
            // The pool may lend an idle connection that ended with the crash. The change must succeed nevertheless.
            _ = try await insert(stores[0])
        }
        #expect(try await database.rows("SELECT count(*) FROM sample") == ["2"])
    }

    @Test func `a change fails as not stored while the server is away`() async throws {
        let database = try await StoreFixture.databaseOnOwnServer()
        defer { database.server?.stop() }
        _ = try await database.rows(createSQL)
        try await StoreFixture.withStores(on: database, requestSeconds: 1) { (stores) async throws in
            try await database.server?.pause()
            for _ in 0..<2 {
                do throws(StoreFailure) {
                    _ = try await insert(stores[0])
                    Issue.record("no failure")
                } catch {
                    guard case .unavailable = error else {
                        Issue.record("\(error)")
                        return
                    }
                }
            }
        }
        try await database.server?.resume()
        #expect(try await database.rows("SELECT count(*) FROM sample") == ["0"])
    }
}
