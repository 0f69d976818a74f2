// Tests of connections that are lost before, during and after a COMMIT, and of servers that do not answer.

import Sockets
import TestSupport
import Testing

@testable import Postgres

@Suite struct PostgresLossTests {
    private static let transaction: [PostgresQuery] = [
        .sql("BEGIN"), .sql("INSERT INTO t VALUES (1)"), .sql("COMMIT"),
    ]

    /// Waits until no other session uses the database, and returns the number of rows in the table.
    private func finalCount(_ server: PostgresServer, _ database: String) async throws -> String {
        let others = "SELECT count(*) FROM pg_stat_activity WHERE datname = '\(database)' AND pid <> pg_backend_pid()"
        #expect(try await eventually { try await server.run(others, in: database) == "0" })
        return try await server.run("SELECT count(*) FROM t", in: database)
    }

    private func databaseWithTable(_ server: PostgresServer) async throws -> String {
        let database = try await server.createDatabase()
        try await server.run("CREATE TABLE t (id int4)", in: database)
        return database
    }

    // MARK: - Cut by the network

    /// Each run lets five more bytes of the request pass. The request ends with a Sync message of five bytes. Without
    /// this message, the server has the whole transaction and commits it.
    @Test func `a transaction whose request is cut is in doubt, and never reported as done`() async throws {
        let server = try await PostgresServer.shared()
        let database = try await databaseWithTable(server)
        try await CuttingProxy.with(server) { proxy in
            var size = 0
            try await server.with(proxy.url(database)) { (connection) async throws in
                _ = try await connection.run(Self.transaction)
                let before = proxy.bytesToServer
                _ = try await connection.run(Self.transaction)
                size = proxy.bytesToServer - before
            }
            #expect(size > 50)
            for cut in stride(from: 0, to: size, by: 5) {
                proxy.fault = .none
                try await server.with(proxy.url(database)) { (connection) async throws in
                    _ = try await connection.run(Self.transaction)
                    try await server.run("TRUNCATE t", in: database)
                    proxy.fault = .cutRequests(afterBytes: cut)
                    let error = await connection.failure(Self.transaction, until: .inSeconds(5))
                    #expect(error?.kind == .connectionLost)
                    #expect(error?.leavesCommitInDoubt == true)
                    #expect(!connection.isOpen)
                    let later = await connection.failure(Self.transaction)
                    #expect(later?.kind == .connectionLost && later?.leavesCommitInDoubt == false)
                }
                #expect(try await finalCount(server, database) == (cut < size - 5 ? "0" : "1"), "\(cut) of \(size)")
            }
        }
    }

    /// Each run lets one more byte of the answer pass. The server has committed in every run.
    @Test func `a transaction whose answer is cut is in doubt, unless it arrived whole`() async throws {
        let server = try await PostgresServer.shared()
        let database = try await databaseWithTable(server)
        try await CuttingProxy.with(server) { proxy in
            var size = 0
            try await server.with(proxy.url(database)) { (connection) async throws in
                _ = try await connection.run(Self.transaction)
                let before = proxy.bytesToClient
                _ = try await connection.run(Self.transaction)
                size = proxy.bytesToClient - before
            }
            #expect(size > 20)
            for cut in 0...size {
                proxy.fault = .none
                try await server.with(proxy.url(database)) { (connection) async throws in
                    _ = try await connection.run(Self.transaction)
                    try await server.run("TRUNCATE t", in: database)
                    proxy.fault = .cutReplies(afterBytes: cut)
                    let error = await connection.failure(Self.transaction, until: .inSeconds(5))
                    if cut < size {
                        #expect(error?.kind == .connectionLost)
                        #expect(error?.leavesCommitInDoubt == true)
                    } else {
                        #expect(error == nil)
                    }
                }
                #expect(try await finalCount(server, database) == "1")
            }
        }
    }

    @Test func `a server that falls silent is a time-out, and other calls of the connection are lost`() async throws {
        let server = try await PostgresServer.shared()
        let database = try await databaseWithTable(server)
        try await CuttingProxy.with(server) { proxy in
            try await server.with(proxy.url(database)) { (connection) async throws in
                proxy.fault = .silence
                async let other = connection.failure([.sql("SELECT 1")], until: .inSeconds(60))
                #expect(await eventually { connection.sentCount == 1 })
                let error = await connection.failure(Self.transaction, until: .inSeconds(3))
                #expect(error?.kind == .timedOut)
                #expect(error?.leavesCommitInDoubt == true)
                #expect(await other?.kind == .connectionLost)
                #expect(!connection.isOpen)
            }
        }
    }

    @Test func `bytes that are not the protocol end the connection`() async throws {
        let server = try await PostgresServer.shared()
        let garbage: [[UInt8]] = [
            [UInt8](repeating: 0, count: 100), Array("HTTP/1.1 200 OK\r\n\r\n".utf8),
            // ReadyForQuery without an answer.
            [0x5a, 0, 0, 0, 5, 0x49],
            // A row without a description.
            [0x44, 0, 0, 0, 11, 0, 1, 0, 0, 0, 1, 0x31],
            // A message that claims two gigabytes.
            [0x44, 0x7f, 0xff, 0xff, 0xff, 0, 1],
        ]
        for bytes in garbage {
            try await CuttingProxy.with(server) { proxy in
                try await server.with(proxy.url("postgres")) { (connection) async throws in
                    _ = try await connection.run([.sql("SELECT 1")])
                    proxy.fault = .reply(bytes)
                    let error = await connection.failure([.sql("SELECT 1")], until: .inSeconds(3))
                    #expect(error != nil)
                    #expect(error?.leavesCommitInDoubt == true)
                    #expect(!connection.isOpen)
                }
            }
        }
    }

    // MARK: - Ended by the server

    @Test func `a terminated session without a call is closed at once`() async throws {
        let server = try await PostgresServer.shared()
        try await server.with { (connection) async throws in
            let backend = try await connection.one("SELECT pg_backend_pid()")[0].int4(0)
            try await server.run("SELECT pg_terminate_backend(\(backend))")
            _ = await connection.waitUntilClosed()
            let error = await connection.failure([.sql("SELECT 1")])
            #expect(error?.kind == .connectionLost && error?.leavesCommitInDoubt == false)
        }
    }

    /// The first statement sleeps before COMMIT. The second statement makes a deferred trigger sleep within COMMIT.
    @Test(arguments: ["SELECT pg_sleep(30)::text", "INSERT INTO slow VALUES (1)"])
    func `a session that is terminated before or during COMMIT commits nothing`(statement: String) async throws {
        let server = try await PostgresServer.shared()
        let database = try await databaseWithTable(server)
        try await server.run(
            """
            CREATE TABLE slow (id int4);
            CREATE FUNCTION wait() RETURNS trigger LANGUAGE plpgsql AS
                $$ BEGIN PERFORM pg_sleep(30); RETURN NULL; END $$;
            CREATE CONSTRAINT TRIGGER wait AFTER INSERT ON slow DEFERRABLE INITIALLY DEFERRED
                FOR EACH ROW EXECUTE FUNCTION wait();
            """, in: database)
        try await server.with(server.url(database)) { (connection) async throws in
            let backend = try await connection.one("SELECT pg_backend_pid()")[0].int4(0)
            async let failure = connection.failure([
                .sql("BEGIN"), .sql("INSERT INTO t VALUES (1)"), .sql(statement), .sql("COMMIT"),
            ])
            let sleeping = "SELECT count(*) FROM pg_stat_activity WHERE pid = \(backend) AND wait_event = 'PgSleep'"
            #expect(try await eventually { try await server.run(sleeping) == "1" })
            try await server.run("SELECT pg_terminate_backend(\(backend))")
            let error = await failure
            #expect(error?.kind == .connectionLost)
            #expect(error?.leavesCommitInDoubt == true)
            #expect(error?.message.contains("57P01") == true)
        }
        #expect(try await finalCount(server, database) == "0")
    }

    /// COMMIT waits for a standby that does not exist. During this wait, the transaction is already committed on the
    /// primary.
    @Test(arguments: ["pg_terminate_backend", "pg_cancel_backend"])
    func `a COMMIT that does not reach the standby is in doubt, although it succeeds`(function: String) async throws {
        let server = try await PostgresServer(settings: ["synchronous_standby_names = 'ghost'"])
        defer { server.stop() }
        try await server.run("SET synchronous_commit = local; CREATE TABLE t (id int4)")
        try await server.with { (connection) async throws in
            let backend = try await connection.one("SELECT pg_backend_pid()")[0].int4(0)
            async let failure = connection.failure(Self.transaction)
            let waiting = "SELECT count(*) FROM pg_stat_activity WHERE pid = \(backend) AND wait_event = 'SyncRep'"
            #expect(try await eventually { try await server.run(waiting) == "1" })
            try await server.run("SELECT \(function)(\(backend))")
            let error = await failure
            #expect(error?.kind == .connectionLost)
            #expect(error?.leavesCommitInDoubt == true)
        }
        #expect(try await server.run("SELECT count(*) FROM t") == "1")
    }

    @Test func `the limits of a session are those of the configuration`() async throws {
        let server = try await PostgresServer.shared()
        let database = try await databaseWithTable(server)
        let configure = { (configuration: inout PostgresConfiguration) in
            configuration.statementTimeoutMilliseconds = 1000
            configuration.lockTimeoutMilliseconds = 50
            configuration.idleInTransactionTimeoutMilliseconds = 500
        }
        try await server.with(server.url(database), configure) { (connection) async throws in
            #expect(await connection.failure([.sql("SELECT pg_sleep(30)::text")])?.sqlState == "57014")
            try await server.with(server.url(database)) { other in
                _ = try await other.run([.sql("BEGIN"), .sql("LOCK TABLE t")])
                #expect(await connection.failure([.sql("SELECT * FROM t")])?.sqlState == "55P03")
                _ = try await other.run([.sql("ROLLBACK")])
            }
            _ = try await connection.run([.sql("BEGIN"), .sql("INSERT INTO t VALUES (1)")])
            _ = await connection.waitUntilClosed()
        }
        #expect(try await finalCount(server, database) == "0")
    }

    @Test func `a server that has become read-only is left`() async throws {
        try await PostgresServer.shared().with { (connection) async throws in
            try await connection.runScript("SET default_transaction_read_only = on")
            let error = await connection.failure([.sql("CREATE TABLE never (id int4)")])
            #expect(error?.sqlState == "25006")
            #expect(!connection.isOpen)
        }
    }

    @Test func `a closed connection fails its calls`() async throws {
        try await PostgresServer.shared().with { (connection) async throws in
            async let failure = connection.failure([.sql("SELECT pg_sleep(30)::text")])
            #expect(await eventually { connection.sentCount == 1 })
            connection.close()
            connection.close()
            #expect(await failure?.kind == .connectionLost)
            #expect(await connection.failure([.sql("SELECT 1")])?.kind == .connectionLost)
        }
    }

    @Test func `the end of the loop ends its connections`() async throws {
        let group = try EventLoopGroup(count: 1)
        let configuration = try PostgresConfiguration(url: await PostgresServer.shared().url())
        let connection = try await PostgresConnection.open(configuration, on: group.next())
        async let failure = connection.failure([.sql("SELECT pg_sleep(30)::text")])
        #expect(await eventually { connection.sentCount == 1 })
        await group.shutdown()
        #expect(await failure?.kind == .connectionLost)
        #expect(await connection.failure([.sql("SELECT 1")])?.kind == .connectionLost)
        await #expect(throws: PostgresError.self) {
            try await PostgresConnection.open(configuration, on: group.next())
        }
    }
}
