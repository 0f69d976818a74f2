// Tests of segments, of errors within them, and of transactions, with a real server.

import Sockets
import TestSupport
import Testing

@testable import Postgres

@Suite struct PostgresPipelineTests {
    @Test(arguments: [false, true])
    func `a segment larger than all buffers in both directions is answered`(isEncrypted: Bool) async throws {
        let server = try await PostgresServer.shared()
        let url = isEncrypted ? server.urlOverTCP(parameters: "sslmode=require") : server.url()
        try await server.with(url) { (connection) async throws in
            let query = { (number: Int) -> PostgresQuery in
                let bytes = [UInt8](repeating: UInt8(truncatingIfNeeded: number), count: 20_000)
                return .sql("SELECT $1 || $1", .bytea(bytes))
            }
            let results = try await connection.run((0..<1000).map(query))
            #expect(results.count == 1000)
            for (number, result) in results.enumerated() {
                let bytes = try result[0].bytea(0)
                #expect(bytes.count == 40_000 && bytes.first == UInt8(truncatingIfNeeded: number))
            }
        }
    }

    /// The sizes of the answers are close to those of TLS records and libpq's buffers. PostgreSQL 17 and newer may send
    /// TLS records that libpq reads only in part. The rest is in OpenSSL's buffer, so a client that waits for the
    /// socket would wait forever.
    @Test func `answers of all sizes arrive over TLS`() async throws {
        let server = try await PostgresServer.shared()
        try await server.with(server.urlOverTCP(parameters: "sslmode=require")) { (connection) async throws in
            for size in [1, 8_000, 8_192, 16_000, 16_383, 16_384, 16_385, 24_000, 32_768, 40_000, 65_536, 1_000_003] {
                for extra in 0..<16 {
                    let row = try await connection.one("SELECT repeat('x', $1)", .int4(Int32(size + extra * 7)))[0]
                    #expect(try row.text(0).utf8.count == size + extra * 7)
                }
            }
        }
    }

    @Test func `an error in the middle fails the call and undoes the segment`() async throws {
        try await PostgresServer.shared().with { (connection) async throws in
            try await connection.runScript("CREATE TEMPORARY TABLE t (id int4 CONSTRAINT positive CHECK (id > 0))")
            let insert = { @Sendable (id: Int32) in PostgresQuery.sql("INSERT INTO t VALUES ($1)", .int4(id)) }
            let error = await connection.failure([insert(1), insert(-2), insert(3)])
            #expect(error?.sqlState == "23514")
            #expect(error?.constraint == "positive")
            #expect(error?.leavesCommitInDoubt == false)
            #expect(error?.message.contains("-2") == false)
            #expect(try await connection.one("SELECT count(*) FROM t")[0].int8(0) == 0)
            _ = try await connection.run([insert(4)])
            #expect(try await connection.one("SELECT count(*) FROM t")[0].int8(0) == 1)
        }
    }

    @Test func `messages that quote values are left out`() async throws {
        try await PostgresServer.shared().with { (connection) async throws in
            let error = await connection.failure([.sql("SELECT $1::text::int8", .text("secret-value"))])
            #expect(error?.sqlState == "22P02")
            #expect(error?.message.contains("secret") == false)
        }
    }

    @Test func `two segments are under way, and the error of one does not reach the other`() async throws {
        try await PostgresServer.shared().with { (connection) async throws in
            async let slow = connection.run([.sql("SELECT pg_sleep(0.2)::text, 1")])
            async let bad = connection.failure([.sql("SELECT 1"), .sql("SELECT 1 / $1", .int4(0)), .sql("SELECT 3")])
            async let good = connection.run([.sql("SELECT 2"), .sql("SELECT 3")])
            #expect(try await slow.count == 1)
            #expect(await bad?.sqlState == "22012")
            #expect(try await good.map { try $0[0].int4(0) } == [2, 3])
        }
    }

    @Test func `many tasks share a connection`() async throws {
        try await PostgresServer.shared().with { (connection) async throws in
            try await withThrowingTaskGroup(of: Void.self) { group in
                for number in Int64(0)..<200 {
                    group.addTask {
                        for round in Int64(0)..<20 {
                            let row = try await connection.one("SELECT $1 * 1000 + $2", .int8(number), .int8(round))[0]
                            #expect(try row.int8(0) == number * 1000 + round)
                        }
                    }
                }
                try await group.waitForAll()
            }
        }
    }

    // MARK: - Transactions

    @Test func `a failed transaction is rolled back before the next call`() async throws {
        try await PostgresServer.shared().with { (connection) async throws in
            try await connection.runScript("CREATE TEMPORARY TABLE t (id int4 PRIMARY KEY)")
            let insert = { @Sendable (id: Int32) in PostgresQuery.sql("INSERT INTO t VALUES ($1)", .int4(id)) }
            let error = await connection.failure([.sql("BEGIN"), insert(1), insert(1), .sql("COMMIT")])
            #expect(error?.sqlState == "23505")
            #expect(try await connection.one("SELECT count(*) FROM t")[0].int8(0) == 0)
            #expect(connection.isIdle)
        }
    }

    @Test func `calls sent behind a transaction that fails are sent again`() async throws {
        let server = try await PostgresServer.shared()
        try await Gate.with(server) { gate in
            try await server.with { (connection) async throws in
                try await connection.runScript("CREATE TEMPORARY TABLE t (id int4 PRIMARY KEY)")
                let insert = { @Sendable (id: Int32) in PostgresQuery.sql("INSERT INTO t VALUES ($1)", .int4(id)) }
                let wait = gate.wait
                async let first = connection.failure([.sql("BEGIN"), wait, insert(1), insert(1), .sql("COMMIT")])
                #expect(await eventually { connection.sentCount == 1 })
                async let second = connection.run([.sql("BEGIN"), insert(2), .sql("COMMIT")])
                // This statement is prepared behind the transaction that fails.
                async let third = connection.run([.sql("SELECT count(*), 'first use' FROM t")])
                async let fourth = connection.run([insert(3)])
                #expect(await eventually { connection.sentCount == 4 })
                try await gate.open()
                #expect(await first?.sqlState == "23505")
                #expect(try await second.count == 3)
                _ = try await (third, fourth)
                let ids = try await connection.one("SELECT array_agg(id::int8 ORDER BY id) FROM t")
                #expect(try ids[0].int8s(0) == [2, 3])
                #expect(connection.isIdle)
            }
        }
    }

    @Test func `a COMMIT that rolls back is an error`() async throws {
        let server = try await PostgresServer.shared()
        try await Gate.with(server) { gate in
            try await server.with { (connection) async throws in
                let wait = gate.wait
                async let failed = connection.failure([.sql("BEGIN"), wait, .sql("SELECT 1 / 0")])
                #expect(await eventually { connection.sentCount == 1 })
                async let commit = connection.failure([.sql("COMMIT")])
                #expect(await eventually { connection.sentCount == 2 })
                try await gate.open()
                #expect(await failed?.sqlState == "22012")
                #expect(await commit?.sqlState == "25P02")
                #expect(try await connection.one("SELECT 1")[0].int4(0) == 1)
            }
        }
    }

    @Test func `an error at the commit of a segment fails the call`() async throws {
        try await PostgresServer.shared().with { (connection) async throws in
            try await connection.runScript("CREATE TEMPORARY TABLE t (id int4 UNIQUE DEFERRABLE INITIALLY DEFERRED)")
            let insert = PostgresQuery.sql("INSERT INTO t VALUES (1)")
            #expect(await connection.failure([insert, insert])?.sqlState == "23505")
            #expect(try await connection.run([insert]).count == 1)
            let error = await connection.failure([.sql("BEGIN"), insert, .sql("COMMIT")])
            #expect(error?.sqlState == "23505" && error?.leavesCommitInDoubt == false)
            #expect(connection.isIdle)
        }
    }

    @Test func `a lost race is retryable`() async throws {
        let server = try await PostgresServer.shared()
        let database = try await server.createDatabase()
        try await server.run("CREATE TABLE t (id int4, n int4); INSERT INTO t VALUES (1, 0)", in: database)
        try await server.with(server.url(database)) { one in
            try await server.with(server.url(database)) { other in
                let read = PostgresQuery.sql("SELECT n FROM t")
                let write = PostgresQuery.sql("UPDATE t SET n = n + 1")
                _ = try await one.run([.sql("BEGIN ISOLATION LEVEL REPEATABLE READ"), read])
                _ = try await other.run([write])
                let error = await one.failure([write, .sql("COMMIT")])
                #expect(error?.isRetryable == true && error?.sqlState == "40001")
                #expect(try await one.run([write]).first?.affectedCount == 1)
            }
        }
    }

    // MARK: - Preparation

    @Test func `a statement is prepared once for a list of types`() async throws {
        try await PostgresServer.shared().with { (connection) async throws in
            let statement = PostgresStatement(String(repeating: "n\u{E9}", count: 100), "SELECT $1::text")
            for _ in 0..<10 {
                _ = try await connection.run([
                    PostgresQuery(statement, [.int8(1)]), PostgresQuery(statement, [.int8(2)]),
                ])
            }
            _ = try await connection.run([PostgresQuery(statement, [.text("a")])])
            let count = "SELECT count(*) FROM pg_prepared_statements WHERE statement = 'SELECT $1::text'"
            #expect(try await connection.one(count)[0].int8(0) == 2)
        }
    }

    @Test func `a statement that cannot be prepared fails each of its calls and no other`() async throws {
        try await PostgresServer.shared().with { (connection) async throws in
            for _ in 0..<2 {
                let error = await connection.failure([
                    .sql("SELECT 1"), .sql("SELECT * FROM missing"), .sql("SELECT 2"),
                ])
                #expect(error?.sqlState == "42P01")
                #expect(error?.message.contains("missing") == true)
            }
            #expect(await connection.failure([.sql("SELECT 1; SELECT 2")])?.sqlState == "42601")
            #expect(await connection.failure([.sql("SELECT $1 IS NULL", .null)])?.sqlState == "42P18")
            try await connection.runScript("CREATE TEMPORARY TABLE missing (id int4)")
            #expect(try await connection.one("SELECT * FROM missing").rowCount == 0)
        }
    }

    @Test func `a statement works again after its table was changed`() async throws {
        try await PostgresServer.shared().with { (connection) async throws in
            try await connection.runScript("CREATE TEMPORARY TABLE t (id int4)")
            _ = try await connection.one("INSERT INTO t VALUES ($1)", .int4(1))
            try await connection.runScript("ALTER TABLE t ADD COLUMN name text")
            _ = try await connection.one("INSERT INTO t VALUES ($1)", .int4(2))
            #expect(try await connection.one("SELECT id FROM t").rowCount == 2)
        }
    }

    @Test func `too many parameters are refused before anything is sent`() async throws {
        try await PostgresServer.shared().with { (connection) async throws in
            let statement = PostgresStatement("many", "SELECT 1")
            let values = [PostgresValue](repeating: .int4(1), count: 65_536)
            #expect(await connection.failure([PostgresQuery(statement, values)])?.kind == .unsendable)
            #expect(await connection.failure([.sql("SELECT 1\0")])?.kind == .unsendable)
            #expect(try await connection.run([]).isEmpty)
            #expect(await connection.failure([.sql("SELECT $1", .text("a\0b"))])?.sqlState == "22021")
            #expect(connection.isIdle)
        }
    }

    // MARK: - Scripts

    @Test func `a script runs several statements, between other calls`() async throws {
        try await PostgresServer.shared().with { (connection) async throws in
            async let before = connection.run([.sql("SELECT pg_sleep(0.1)::text")])
            async let script: Void = connection.runScript(
                "CREATE TEMPORARY TABLE t (id int4); INSERT INTO t VALUES (1), (2); SELECT * FROM t;")
            async let after = connection.run([.sql("SELECT 5")])
            _ = try await (before, script, after)
            #expect(try await connection.one("SELECT count(*) FROM t")[0].int8(0) == 2)
        }
    }

    @Test func `a script with an error has no effect`() async throws {
        try await PostgresServer.shared().with { (connection) async throws in
            for script in ["CREATE TABLE u (id int4); SELECT 1 / 0", "BEGIN; CREATE TABLE u (id int4); SELECT 1 / 0"] {
                let error = await #expect(throws: PostgresError.self) { try await connection.runScript(script) }
                #expect(error?.sqlState == "22012")
                #expect(try await connection.one("SELECT to_regclass('u') IS NULL")[0].bool(0))
            }
            #expect(connection.isIdle)
        }
    }

    @Test func `COPY in a script ends the connection, not the loop`() async throws {
        try await PostgresServer.shared().with { (connection) async throws in
            let error = await #expect(throws: PostgresError.self) {
                try await connection.runScript("CREATE TEMPORARY TABLE t (id int4); COPY t FROM STDIN")
            }
            #expect(error?.kind == .connectionLost)
            #expect(!connection.isOpen)
        }
    }
}
