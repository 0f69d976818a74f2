// Tests of the pool: how it lends connections, and what it does when a server stops and comes back.

import Logging
import Sockets
import Synchronization
import TestSupport
import Testing

@testable import Postgres

@Suite struct PostgresPoolTests {
    /// Runs the body with a pool, which is closed afterwards.
    private func with(
        _ url: String, size: Int = 2, _ body: @Sendable (PostgresPool) async throws -> Void
    ) async throws {
        let logger = Logger(label: "test") { _ in SwiftLogNoOpLogHandler() }
        let configuration = try PostgresConfiguration(url: url)
        let pool = PostgresPool(configuration, size: size, loops: Loops.group, logger: logger)
        let run = Task { await pool.run() }
        do {
            try await body(pool)
        } catch {
            run.cancel()
            throw error
        }
        run.cancel()
        await run.value
        #expect(pool.openCount == 0)
    }

    private func one(_ pool: PostgresPool, _ query: PostgresQuery = .sql("SELECT 1")) async throws -> PostgresResult {
        try await pool.withConnection(until: .inSeconds(20)) { connection async throws(PostgresError) in
            try await connection.run([query])[0]
        }
    }

    @Test func `more tasks than connections take turns`() async throws {
        try await with(PostgresServer.shared().url()) { pool in
            let pids = try await withThrowingTaskGroup(of: Int32.self) { group in
                for _ in 0..<100 {
                    group.addTask { try await self.one(pool, .sql("SELECT pg_backend_pid()"))[0].int4(0) }
                }
                return try await group.reduce(into: Set<Int32>()) { $0.insert($1) }
            }
            #expect(pids.count <= 2)
            #expect(pool.openCount <= 2)
        }
    }

    @Test func `a transaction that is left open is rolled back`() async throws {
        let server = try await PostgresServer.shared()
        let database = try await server.createDatabase()
        try await server.run("CREATE TABLE t (id int4)", in: database)
        try await with(server.url(database), size: 1) { pool in
            try await pool.withConnection(until: .inSeconds(20)) { connection async throws(PostgresError) in
                _ = try await connection.run([.sql("BEGIN"), .sql("INSERT INTO t VALUES (1)")])
            }
            #expect(try await self.one(pool, .sql("SELECT count(*) FROM t"))[0].int8(0) == 0)
        }
    }

    @Test func `a task waits until its deadline, or until it is cancelled`() async throws {
        try await with(PostgresServer.shared().url(), size: 1) { pool in
            try await pool.withConnection(until: .inSeconds(20)) { _ in
                func failure(until deadline: Deadline) async -> PostgresError.Kind? {
                    do throws(PostgresError) {
                        try await pool.withConnection(until: deadline) { _ in }
                        return nil
                    } catch {
                        return error.kind
                    }
                }
                #expect(await failure(until: .inMilliseconds(50)) == .timedOut)
                let task = Task { await failure(until: .inSeconds(60)) }
                try? await Task.sleep(for: .milliseconds(20))
                task.cancel()
                #expect(await task.value == .cancelled)
            }
            #expect(try await self.one(pool)[0].int4(0) == 1)
        }
    }

    @Test func `a pool that ends answers the tasks that wait, and later ones`() async throws {
        let logger = Logger(label: "test") { _ in SwiftLogNoOpLogHandler() }
        let configuration = try PostgresConfiguration(url: "postgresql://dwell@%2Fnonexistent/dwell")
        let pool = PostgresPool(configuration, size: 2, loops: Loops.group, logger: logger)
        @Sendable func failure() async -> PostgresError.Kind? {
            do throws(PostgresError) {
                try await pool.withConnection(until: .inSeconds(20)) { _ in }
                return nil
            } catch {
                return error.kind
            }
        }
        let run = Task { await pool.run() }
        let waiting = (0..<3).map { _ in Task { await failure() } }
        try await Task.sleep(for: .milliseconds(50))
        run.cancel()
        await run.value
        for task in waiting { #expect(await task.value == .cancelled) }
        #expect(await failure() == .cancelled)
    }

    private final class Counter: Sendable {
        let count = Mutex(0)
    }

    @Test func `no task waits longer than its deadline, which may have passed already`() async throws {
        let logger = Logger(label: "test") { _ in SwiftLogNoOpLogHandler() }
        // `run` is not called, so the pool has no connection.
        let pool = PostgresPool(
            try PostgresConfiguration(url: try await PostgresServer.shared().url()), size: 1, loops: Loops.group,
            logger: logger)
        for _ in 0..<3 {
            let ended = Counter()
            let tasks = (0..<2000).map { index in
                Task {
                    let until = index % 2 == 0 ? Deadline.now : .inMilliseconds(index % 3)
                    let error = await #expect(throws: PostgresError.self) {
                        try await pool.withConnection(until: until) { _ in }
                    }
                    #expect(error?.kind == .timedOut)
                    ended.count.withLock { $0 += 1 }
                }
            }
            #expect(await eventually { ended.count.withLock { $0 } == tasks.count })
            for task in tasks { task.cancel() }
            for task in tasks { await task.value }
        }
    }

    @Test func `a terminated connection is replaced`() async throws {
        let server = try await PostgresServer.shared()
        try await with(server.url(), size: 1) { pool in
            for _ in 0..<5 {
                let backend = try await self.one(pool, .sql("SELECT pg_backend_pid()"))[0].int4(0)
                try await server.run("SELECT pg_terminate_backend(\(backend))")
                #expect(
                    await eventually {
                        let now = try? await self.one(pool, .sql("SELECT pg_backend_pid()"))[0].int4(0)
                        return now != nil && now != backend
                    })
            }
        }
    }

    @Test func `the pool is usable again after the server restarts`() async throws {
        let server = try await PostgresServer(settings: [])
        defer { server.stop() }
        try await with(server.url()) { pool in
            _ = try await self.one(pool)
            for _ in 0..<3 {
                try await server.restart()
                #expect(await eventually { (try? await self.one(pool)) != nil })
            }
            try await server.pause()
            #expect(await eventually { pool.openCount == 0 })
            let error = await #expect(throws: PostgresError.self) {
                try await pool.withConnection(until: .inMilliseconds(300)) { _ in }
            }
            #expect(error?.kind == .timedOut)
            // The message names the reason.
            #expect(error?.message.contains("connection") == true)
            try await server.resume()
            #expect(await eventually { (try? await self.one(pool)) != nil })
            #expect(await eventually { pool.openCount == 2 })
        }
    }

    @Test func `a pool whose server is absent from the beginning finds it later`() async throws {
        let server = try await PostgresServer(settings: [])
        defer { server.stop() }
        try await server.pause()
        try await with(server.url()) { pool in
            try await Task.sleep(for: .milliseconds(100))
            #expect(pool.openCount == 0)
            try await server.resume()
            _ = try await self.one(pool)
        }
    }
}
