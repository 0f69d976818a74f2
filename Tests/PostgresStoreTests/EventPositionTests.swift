// Tests that the feed returns a driver's events in the order of their numbers, even if a batch waits for the driver's
// row while other transactions change the row.

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

    /// The number of a batch's transaction decides the positions of its events in the feed. Here, the batch waits for a
    /// lock on the driver's row. When the lock is released, the batch gets its transaction number.
    ///
    /// A second transaction also locks the row, so the batch, which now has its number, waits again. During this wait,
    /// a faster batch gets a higher number.
    @Test(.enabled(if: CitusCluster.named == nil, "the backends of a cluster may run on another machine"))
    func `a batch that got its number before a faster batch is run again with another one`() async throws {
        let database = try await StoreFixture.databaseOnOwnServer()
        defer { database.server?.stop() }
        // The test stops a backend with SIGSTOP. A backend that looks for a deadlock holds locks that all others need.
        // With this timeout, no backend looks for a deadlock.
        try await database.rows("ALTER DATABASE \(database.name) SET deadlock_timeout = '1h'")
        try await StoreFixture.withStores(2, on: database) { (stores) async throws in
            _ = try await stores[0].appended(request("first"))
            let (update, next) = (try await Self.open(database), try await Self.open(database))
            defer {
                update.close()
                next.close()
            }
            _ = try await update.run([.init(.begin), .init(Self.touch)])
            // The row is locked, so three attempts of the batch fail. The fourth attempt waits for the lock.
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

    /// On Citus, the coordinator gives a transaction its number, and a worker holds the locks on rows. The batch waits
    /// for the transaction `update`, which gets its number just before its COMMIT. The batch must get a higher number
    /// than `update`.
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

    /// Waits until a lock in the cluster blocks a statement that begins with `sql`. Returns the global process id of
    /// the statement's backend on the coordinator.
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

    /// Stops a process while the body runs, with SIGSTOP and SIGCONT.
    private static func whileStopped(_ pid: String, _ body: () async throws -> Void) async throws {
        let pid = try #require(pid_t(pid))
        try #require(kill(pid, SIGSTOP) == 0)
        defer { kill(pid, SIGCONT) }
        try await body()
    }
}
