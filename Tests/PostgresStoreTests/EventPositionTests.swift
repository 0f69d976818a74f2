// A driver's events have positions that ascend with their numbers, also if a batch waits for the driver's row under a
// lock while other transactions move the driver.

import Engine
import Foundation
import JourneyModel
import Postgres
import Sockets
import TestSupport
import Testing

@testable import PostgresStore

struct EventPositionTests {
    private let driver = DriverID("moved")

    private func request(_ key: String) -> AppendRequest { .sample(.sample(.diagnostic("d"), key: key), of: driver) }

    /// PostgreSQL gives a transaction its number when it locks a row: after the wait for the row's first update, and
    /// before the wait for the next one, if the row was updated again meanwhile. The two updates here let a batch under
    /// a lock wait at exactly this place.
    @Test(.enabled(if: CitusCluster.named == nil, "the backends of a cluster may run on another machine"))
    func `a batch that got its number before a faster batch is run again with another one`() async throws {
        let database = try await StoreFixture.databaseOnOwnServer()
        defer { database.server?.stop() }
        // A backend that looks for a deadlock has locks that all others need. It must not be stopped then.
        try await database.rows("ALTER DATABASE \(database.name) SET deadlock_timeout = '1h'")
        try await StoreFixture.withStores(2, on: database) { (stores) async throws in
            _ = try await stores[0].appended(request("first"))
            let (update, next) = (try await Self.open(database), try await Self.open(database))
            defer {
                update.close()
                next.close()
            }
            _ = try await update.run([.init(.begin), .init(Self.touch)])
            // Batches that find the row locked are run again, the fourth one under a lock.
            async let slow = stores[0].append(request("slow"))
            let batch = try await database.backend(waitingFor: "transactionid")
            try await Self.whileStopped(batch) {
                _ = try await update.run([.init(.commit)])
                _ = try await next.run([.init(.begin), .init(Self.touch)])
            }
            _ = try await database.backend(
                waitingFor: "transactionid", and: "pid = \(batch) AND backend_xid IS NOT NULL")
            try await Self.whileStopped(batch) {
                _ = try await next.run([.init(.commit)])
                _ = try await stores[1].appended(request("fast"))
            }
            guard case .stored = await slow else {
                Issue.record("\(await slow)")
                return
            }
            #expect(try await stores[1].check { _, _ in }.problems == [])
        }
        let events = try await database.rows(
            "SELECT idempotency_key, rank() OVER (ORDER BY position) FROM event ORDER BY seq")
        #expect(events == ["first|1", "fast|2", "slow|3"])
    }

    /// On Citus the number is the coordinator's, and the rows are locked on another server. The transaction that the
    /// batch waits for gets its number at its end here, as a batch of another instance may.
    @Test(.enabled(if: CitusCluster.named != nil, "DWELL_TEST_CITUS_URL names no Citus cluster"))
    func `a batch on Citus gets its number when it has the driver's row`() async throws {
        let database = try await StoreFixture.database()
        let user = try PostgresConfiguration(url: database.url + CitusTests.noFanOut)
        try await StoreFixture.withStores(on: database, as: user) { (stores) async throws in
            _ = try await stores[0].appended(request("first"))
            let update = try await Self.open(database)
            defer { update.close() }
            let move = PostgresStatement("move", "UPDATE driver SET version = version + 1")
            _ = try await update.run([.init(.begin), .init(move)])
            async let slow = stores[0].append(request("slow"))
            let lost = try await Self.backend(waitingWith: "WITH locked AS", database)
            try await database.rows("SELECT pg_terminate_backend(\(lost))")
            _ = try await Self.backend(waitingWith: "SELECT driver.id FROM driver", database)
            let number = PostgresStatement("number", "SELECT \(EventPosition.ofTransaction)")
            let position = try await update.run([.init(number)])[0][0].int8(0) + 1
            let place = PostgresStatement("place", "UPDATE event SET position = \(position)")
            _ = try await update.run([.init(place), .init(.commit)])
            guard case .stored = await slow else {
                Issue.record("\(await slow)")
                return
            }
        }
        let events = try await database.rows(
            "SELECT idempotency_key, rank() OVER (ORDER BY position) FROM event ORDER BY seq")
        #expect(events == ["first|1", "slow|2"])
    }

    /// Waits until a statement that begins with `sql` waits for a lock on a server of the cluster, and returns the
    /// global process id of its backend on the coordinator.
    private static func backend(waitingWith sql: String, _ database: StoreFixture.Database) async throws -> String {
        while true {
            let found = try await database.rows(
                "SELECT waiting_gpid FROM citus_lock_waits WHERE blocked_statement LIKE '\(sql)%' LIMIT 1")
            if let pid = found.first { return pid }
            try await Task.sleep(for: .milliseconds(5))
        }
    }

    private static let touch = PostgresStatement("touch", "UPDATE driver SET version = version")

    private static func open(_ database: StoreFixture.Database) async throws -> PostgresConnection {
        try await PostgresConnection.open(
            try database.configuration, on: StoreFixture.loops.next(), until: .inSeconds(10))
    }

    /// Stops a process during the body.
    private static func whileStopped(_ pid: String, _ body: () async throws -> Void) async throws {
        let pid = try #require(pid_t(pid))
        try #require(kill(pid, SIGSTOP) == 0)
        defer { kill(pid, SIGCONT) }
        try await body()
    }
}
