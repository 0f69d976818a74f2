// Tests that other drivers do not wait while another transaction keeps a driver's row locked.

import Engine
import JourneyModel
import Postgres
import Sockets
import TestSupport
import Testing

@testable import PostgresStore

@Suite(.enabled(if: CitusCluster.named == nil, "on Citus a batch waits for the rows of its drivers"))
struct LockedDriverTests {
    @Test func `the other drivers of a batch are stored at once, the locked one later`() async throws {
        let database = try await StoreFixture.database()
        let drivers = (0...50).map { DriverID("driver-\($0)") }
        let requests = { @Sendable (key: String) in
            drivers.map { AppendRequest.sample(.sample(.diagnostic("d"), key: key), of: $0) }
        }
        let other = try await PostgresConnection.open(
            try database.configuration, on: StoreFixture.loops.next(), until: .inSeconds(10))
        defer { other.close() }
        try await StoreFixture.withStores(on: database) { (stores) async throws in
            _ = await stores[0].append(requests("first"))
            let lock = PostgresStatement(
                "lock", "SELECT 1 FROM driver WHERE driver_id = '\(drivers[0].rawValue)' FOR UPDATE")
            _ = try await other.run([.init(.begin), .init(lock)])
            let begin = ContinuousClock.now
            // One call, so that all requests are in one batch.
            async let outcomes = stores[0].append(requests("second"))
            let count = "SELECT count(*) FROM event WHERE idempotency_key = 'second'"
            while try await database.rows(count) != ["50"], .now - begin < .seconds(3) {
                try await Task.sleep(for: .milliseconds(10))
            }
            #expect(try await database.rows(count) == ["50"])
            // The pause is longer than a statement waits for a lock.
            try await Task.sleep(for: .seconds(5))
            #expect(try await database.rows(count) == ["50"])
            _ = try await other.run([.init(.commit)])
            for outcome in await outcomes {
                guard case .stored = outcome else {
                    Issue.record("\(outcome)")
                    continue
                }
            }
            #expect(try await stores[0].check { _, _ in }.problems == [])
        }
    }

    /// After three conflicts, a batch waits for the driver's row. The batches of two locked drivers must not occupy
    /// both writers of the store.
    @Test func `an event of another driver is stored at once while two drivers wait for their locks`() async throws {
        let database = try await StoreFixture.database()
        let locked = [DriverID("locked-1"), DriverID("locked-2")]
        let requests = { @Sendable (key: String) in
            locked.map { AppendRequest.sample(.sample(.diagnostic("d"), key: key), of: $0) }
        }
        let other = try await PostgresConnection.open(
            try database.configuration, on: StoreFixture.loops.next(), until: .inSeconds(10))
        defer { other.close() }
        try await StoreFixture.withStores(on: database) { (stores) async throws in
            _ = await stores[0].append(requests("first"))
            let lock = PostgresStatement("lock", "SELECT 1 FROM driver FOR UPDATE")
            _ = try await other.run([.init(.begin), .init(lock)])
            async let outcomes = stores[0].append(requests("second"))
            _ = try await database.backend(waitingFor: "transactionid")
            // Without this pause, the test would not notice a second batch that wrongly waits for a locked driver.
            try await Task.sleep(for: .milliseconds(500))
            let begin = ContinuousClock.now
            let free = AppendRequest.sample(.sample(.diagnostic("d"), key: "k"), of: DriverID("free"))
            guard case .stored = await stores[0].append(free) else {
                Issue.record("the event of another driver")
                return
            }
            // A statement waits four seconds for a lock.
            #expect(.now - begin < .seconds(2))
            _ = try await other.run([.init(.commit)])
            for outcome in await outcomes {
                guard case .stored = outcome else {
                    Issue.record("\(outcome)")
                    continue
                }
            }
        }
    }
}
