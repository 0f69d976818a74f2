// Gives each test a new database, on the shared PostgreSQL server or in a Citus cluster. Runs the test's stores on this
// database. Each store stands for one instance of the server.

import Engine
import Identity
import JourneyModel
import Logging
import Postgres
import RateLimiting
import Sockets
import TestSupport
import Testing

@testable import PostgresStore

enum StoreFixture {
    static let loops: EventLoopGroup = {
        do { return try EventLoopGroup(count: 2) } catch { preconditionFailure("no event loop: \(error)") }
    }()

    enum Place: Sendable {
        case server(PostgresServer)
        case citus(CitusCluster)
    }

    /// A database that only one test uses.
    struct Database: Sendable {
        let place: Place
        let name: String

        init(place: Place, name: String) {
            (self.place, self.name) = (place, name)
        }

        init(server: PostgresServer, name: String) {
            self.init(place: .server(server), name: name)
        }

        var server: PostgresServer? { if case .server(let server) = place { server } else { nil } }

        var url: String {
            switch place {
            case .server(let server): server.url(name)
            case .citus(let cluster): cluster.url(schema: name)
            }
        }

        var configuration: PostgresConfiguration {
            get throws { try PostgresConfiguration(url: url) }
        }

        func configuration(statementMilliseconds: Int) throws -> PostgresConfiguration {
            var configuration = try configuration
            configuration.statementTimeoutMilliseconds = statementMilliseconds
            return configuration
        }

        /// From now on, each read of the table takes a second for each row. This does not work on Citus, because a view
        /// takes the place of the table.
        func slowDown(_ table: String) async throws {
            try await rows(
                """
                ALTER TABLE \(table) RENAME TO slow_\(table);
                CREATE VIEW \(table) AS SELECT * FROM slow_\(table) WHERE pg_sleep(1) IS NOT NULL;
                """)
        }

        /// Returns what psql prints: one line per row, columns separated by `|`.
        @discardableResult
        func rows(_ sql: String) async throws -> [String] {
            let output = try await PostgresServer.run(sql, at: url)
            return output.split(separator: "\n").map(String.init)
        }

        /// Returns how many rows of a table PostgreSQL has fetched through indexes. A connection's counts are complete
        /// when the connection has ended, so this function first waits until none is open.
        func fetchedRows(of table: String) async throws -> Int {
            let connections =
                "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"
            while try await rows("\(connections) AND backend_type = 'client backend'") != ["0"] {
                try await Task.sleep(for: .milliseconds(10))
            }
            let count = try await rows("SELECT idx_tup_fetch FROM pg_stat_user_tables WHERE relname = '\(table)'")
            return try #require(Int(count.first ?? ""))
        }

        func migrate(_ run: PostgresMigrationRun = PostgresMigrationRun()) async throws -> [Int64] {
            try await PostgresEventStore.migrate(
                try configuration, on: loops.next(), atMilliseconds: 1, until: .inSeconds(30), run)
        }
    }

    static func emptyDatabase() async throws -> Database {
        if let cluster = CitusCluster.named {
            return Database(place: .citus(cluster), name: try await cluster.createSchema())
        }
        let server = try await PostgresServer.shared()
        return Database(server: server, name: try await server.createDatabase())
    }

    static func database() async throws -> Database {
        let database = try await emptyDatabase()
        _ = try await database.migrate()
        return database
    }

    /// Runs `count` stores on one database during the body.
    ///
    /// - Parameters:
    ///   - tailBegin: how many of a driver's events a store reads at first when it folds a late event.
    ///   - tailMax: the maximum number of a driver's events in memory during a fold.
    ///   - user: the configuration of the stores; if nil, `database.configuration`.
    static func withStores<Value: Sendable>(
        _ count: Int = 1, on database: Database, requestSeconds: Int = 30, digests: KeyedHashes? = nil,
        charging: (any RefoldCharging)? = nil, tailBegin: Int64 = PostgresEventStore.tailBegin,
        tailMax: Int64 = PostgresEventStore.tailMax, as user: PostgresConfiguration? = nil,
        _ body: @Sendable ([PostgresEventStore]) async throws -> Value
    ) async throws -> Value {
        let configuration = try user ?? database.configuration
        let stores = (0..<count).map { _ in
            PostgresEventStore(
                configuration, writersMax: 2, readersMax: 2, loops: loops, requestSeconds: requestSeconds,
                digests: digests, charging: charging, tailBegin: tailBegin, tailMax: tailMax,
                logger: Logger(label: "test", factory: { _ in SwiftLogNoOpLogHandler() }))
        }
        return try await withThrowingTaskGroup(of: Void.self) { group in
            for store in stores { group.addTask { await store.run() } }
            let result: Result<Value, any Error>
            do { result = .success(try await body(stores)) } catch { result = .failure(error) }
            for store in stores { await store.close() }
            try await group.waitForAll()
            return try result.get()
        }
    }

    /// Stores the expiries of all drivers that are due at `end`.
    static func expireAll(_ store: PostgresEventStore, at end: Moment) async throws {
        var request = ExpiryRequest(now: end, settings: VersionedSettings(Settings()), driversMax: 64)
        repeat {
            let part = try await store.storeExpiries(request)
            #expect(part.failures == [])
            request.after = part.next
        } while request.after != nil
    }
}

/// An event with the values that its row must have, according to the fold of all events in order.
struct ExpectedEvent: Hashable, Sendable {
    var key: String
    var transition: Int64
    var state: Int64

    /// - Parameter arrived: the clients' events, in the order of arrival.
    static func all(_ arrived: [OrderedEvent], until end: Moment) -> [ExpectedEvent] {
        var expected: [ExpectedEvent] = []
        var journey = Journey()
        let expire = { (deadline: (name: EventName, at: Moment), journey: Journey) in
            let event = OrderedEvent.expiry(deadline.name, at: deadline.at, sessionID: journey.sessionID)
            return ExpectedEvent(
                key: event.idempotencyKey, transition: Verdict.Transition.applied.code, state: journey.state.code)
        }
        for event in Fold.inOrder(arrived) {
            while let deadline = journey.takeDeadline(before: event) { expected.append(expire(deadline, journey)) }
            let verdict = journey.apply(event)
            expected.append(
                ExpectedEvent(
                    key: event.idempotencyKey, transition: verdict.transition.code, state: journey.state.code))
        }
        while let deadline = journey.takeDeadline(before: end) { expected.append(expire(deadline, journey)) }
        return expected
    }

    /// Reads all drivers' events in the stored order, with one statement. Leaves out expiries without effect: a late
    /// event has moved their deadlines.
    static func stored(in database: StoreFixture.Database) async throws -> [DriverID: [ExpectedEvent]] {
        let rows = try await database.rows(
            """
            SELECT driver_id, idempotency_key, transition, after_state FROM event
            JOIN driver ON driver.lane = event.lane AND driver.id = event.driver
            WHERE NOT (origin = 1 AND transition = 0) ORDER BY driver_id, \(EventStatements.ascending)
            """)
        var stored: [DriverID: [ExpectedEvent]] = [:]
        for row in rows {
            let columns = row.split(separator: "|").map(String.init)
            stored[DriverID(columns[0]), default: []].append(
                ExpectedEvent(
                    key: columns[1], transition: Int64(columns[2]) ?? -1, state: Int64(columns[3]) ?? -1))
        }
        return stored
    }
}

extension AppendRequest {
    /// Returns the request of a random event. The request is received later than any event, so no event is ahead of the
    /// server's clock.
    static func random(_ event: OrderedEvent, of driver: DriverID) -> AppendRequest {
        let submission = EventSubmission.sample(
            event.name, key: event.idempotencyKey, eventID: event.eventID, session: event.sessionID,
            charger: event.chargerID, at: event.occurredAt, sequence: event.sequence,
            previousState: event.previousState, isWholeSecond: event.isWholeSecond)
        let settings = Settings(
            gracePeriodSeconds: event.gracePeriodSeconds, hardTimeoutSeconds: event.hardTimeoutSeconds)
        return AppendRequest(
            driver: driver, submission: submission, receivedAt: .sample.advanced(bySeconds: 1_000_000),
            settings: VersionedSettings(
                settings: settings, version: "\(event.gracePeriodSeconds)-\(event.hardTimeoutSeconds)"),
            sender: event.sender)
    }
}
