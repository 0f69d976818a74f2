// Tests of connecting: time limits, several hosts, TLS, passwords, and servers with unsuitable settings.

import Secrets
import Sockets
import TestSupport
import Testing

@testable import Postgres

@Suite struct PostgresConnectingTests {
    private func failure(
        _ url: String, password: String? = nil, until deadline: Deadline = .inSeconds(20)
    ) async throws -> PostgresError? {
        let configuration = try PostgresConfiguration(url: url, password: password.map { Secret($0) })
        do throws(PostgresError) {
            try await PostgresConnection.open(configuration, on: Loops.group.next(), until: deadline).close()
            return nil
        } catch {
            return error
        }
    }

    // MARK: - Time limits and hosts

    @Test func `a server that accepts and never answers is a time-out`() async throws {
        let server = try await PostgresServer.shared()
        try await CuttingProxy.with(server) { proxy in
            proxy.fault = .silence
            let begin = ContinuousClock.now
            let error = try await failure(proxy.url("postgres"), until: .inMilliseconds(200))
            #expect(error?.kind == .timedOut)
            #expect(error?.leavesCommitInDoubt == false)
            #expect(ContinuousClock.now - begin < .seconds(10))
        }
    }

    @Test func `after a host that never answers, the next one is used`() async throws {
        let server = try await PostgresServer.shared()
        try await CuttingProxy.with(server) { proxy in
            proxy.fault = .silence
            let hosts = "\(proxy.host):5432,localhost:\(server.port)"
            try await server.with("postgresql://dwell@\(hosts)/postgres?sslmode=disable&connect_timeout=2") {
                (connection) async throws in
                #expect(try await connection.one("SELECT inet_server_port()")[0].int4(0) == Int32(server.port))
            }
        }
    }

    @Test func `a cancelled attempt ends at once`() async throws {
        let server = try await PostgresServer.shared()
        try await CuttingProxy.with(server) { proxy in
            proxy.fault = .silence
            let url = proxy.url("postgres")
            let attempt = Task { try await failure(url) }
            try await Task.sleep(for: .milliseconds(50))
            attempt.cancel()
            #expect(try await attempt.value?.message == "The attempt to connect was cancelled.")
        }
    }

    @Test func `a closed port and a standby are passed over`() async throws {
        // A standby copies all databases of its server, so this test starts a server of its own.
        let server = try await PostgresServer()
        defer { server.stop() }
        let standby = try await PostgresServer(standbyOf: server)
        defer { standby.stop() }
        #expect(try await standby.run("SELECT pg_is_in_recovery()") == "t")
        for first in ["localhost:1", "localhost:\(standby.port)"] {
            try await server.with("postgresql://dwell@\(first),localhost:\(server.port)/postgres?sslmode=disable") {
                (connection) async throws in
                #expect(try await connection.one("SELECT inet_server_port()")[0].int4(0) == Int32(server.port))
            }
        }
        let error = try await failure(standby.url())
        #expect(error?.kind == .cannotConnect)
        #expect(error?.message.contains("read-only") == true)
        #expect(try await failure(server.urlOverTCP(port: 1))?.kind == .cannotConnect)
    }

    // MARK: - TLS

    @Test func `the server's certificate is verified, with its host name`() async throws {
        let server = try await PostgresServer.shared()
        let parameters = "sslmode=verify-full&sslrootcert=\(server.folder)/ca.pem"
        try await server.with(server.urlOverTCP(parameters: parameters)) { (connection) async throws in
            let row = try await connection.one("SELECT ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid()")[0]
            #expect(try row.bool(0))
        }
        let wrongHost = try await failure(server.urlOverTCP(host: "127.0.0.1", parameters: parameters))
        #expect(wrongHost?.kind == .cannotConnect)
        #expect(wrongHost?.message.contains("does not match host name") == true)
        let other = try await PostgresServer(settings: [])
        defer { other.stop() }
        let wrongAuthority = "sslmode=verify-full&sslrootcert=\(other.folder)/ca.pem"
        let untrusted = try await failure(server.urlOverTCP(parameters: wrongAuthority))
        #expect(untrusted?.message.contains("certificate verify failed") == true)
        // verify-full is the default and needs a root certificate.
        let missing = try await failure(server.urlOverTCP(parameters: "sslrootcert=/nonexistent.pem"))
        #expect(missing?.message.contains("root certificate file") == true)
    }

    // MARK: - Passwords

    @Test func `a wrong password is an error without any password`() async throws {
        let server = try await PostgresServer.shared()
        try await server.run("DROP ROLE IF EXISTS locked; CREATE ROLE locked LOGIN PASSWORD 'correct-horse'")
        let url = server.urlOverTCP(user: "locked")
        let error = try await failure(url, password: "wrong-battery")
        #expect(error?.kind == .cannotConnect)
        #expect(error?.message.contains("password authentication failed") == true)
        #expect(error?.message.contains("battery") == false && error?.message.contains("horse") == false)
        #expect(try await failure(url, password: "correct-horse") == nil)
    }

    // MARK: - Settings of the session

    @Test(arguments: [("off", false), ("local", false), ("remote_write", false), ("on", true), ("remote_apply", true)])
    func `a session that acknowledges too early is refused`(setting: String, isAccepted: Bool) async throws {
        let server = try await PostgresServer.shared()
        let database = try await server.createDatabase()
        try await server.run("ALTER DATABASE \(database) SET synchronous_commit = \(setting)")
        let error = try await failure(server.url(database))
        #expect((error == nil) == isAccepted)
        if let error {
            #expect(error.kind == .cannotConnect)
            #expect(error.message.contains("synchronous_commit") && error.message.contains(setting))
        }
    }

    @Test func `the checked synchronous_commit stays in force for the session`() async throws {
        let server = try await PostgresServer.shared()
        let database = try await server.createDatabase()
        try await server.with(server.url(database)) { (connection) async throws in
            // A reload of the server's configuration does not change a value that the session has set.
            let row = try await connection.one(
                "SELECT setting, source FROM pg_settings WHERE name = 'synchronous_commit'")[0]
            #expect(try row.text(0) == "on")
            #expect(try row.text(1) == "session")
        }
    }

    @Test func `the session has our settings, whatever the database sets`() async throws {
        let server = try await PostgresServer.shared()
        let database = try await server.createDatabase()
        for setting in ["plan_cache_mode = force_generic_plan", "client_encoding = LATIN1", "statement_timeout = 0"] {
            try await server.run("ALTER DATABASE \(database) SET \(setting)")
        }
        try await server.run("ALTER DATABASE \(database) SET default_transaction_isolation = serializable")
        try await server.with(server.url(database)) { (connection) async throws in
            let names = [
                "plan_cache_mode", "client_encoding", "statement_timeout", "lock_timeout",
                "idle_in_transaction_session_timeout", "transaction_isolation", "application_name",
            ]
            let row = try await connection.one(
                "SELECT array_agg(current_setting(n) ORDER BY o) FROM unnest($1) WITH ORDINALITY u(n, o)",
                .texts(names))[0]
            #expect(try row.texts(0) == ["auto", "UTF8", "10s", "4s", "10s", "read committed", "dwell"])
        }
    }
}
