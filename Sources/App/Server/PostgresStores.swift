// Opens a PostgreSQL database, and creates the `Stores` value through which the process uses it.

import Engine
import Identity
import Logging
import Postgres
import PostgresStore
import SharedTables
import Sockets
import StructuredLogging

extension Stores {
    /// Connects to the database and migrates it. If another server is migrating it, waits for that server.
    static func postgres(_ configuration: PostgresConfiguration, _ opening: Opening) async throws -> Stores {
        _ = try await PostgresSchema.result(
            configuration, migrates: true, loops: opening.loops, atMilliseconds: opening.milliseconds
        ).get()
        let store = PostgresEventStore(
            configuration, loops: opening.loops, digests: opening.digests, charging: opening.charging,
            metrics: opening.metrics, logger: opening.logger)
        return Stores(store, digests: opening.digests, close: runUntilClosed(store))
    }

    /// Connects a command to the database. Throws if a migration of this binary has not been applied to the database.
    static func postgres(existing configuration: PostgresConfiguration, _ digests: KeyedHashes) async throws -> Stores {
        let loops = try EventLoopGroup(count: 1)
        do {
            let migrations = try await PostgresSchema.result(configuration, migrates: false, loops: loops).get()
            if let missing = migrations.first(where: { $0.appliedAtMilliseconds == nil }) {
                throw UnusableDatabase(
                    .postgres(configuration),
                    reason: "migration \(missing.number) (\(missing.name)) is not applied: run dwell migrate")
            }
        } catch {
            await loops.shutdown()
            throw error
        }
        let store = PostgresEventStore(
            configuration, writersMax: 1, readersMax: 1, tableConnections: 1, loops: loops, digests: digests,
            logger: Logger(label: "dwell", factory: { _ in SwiftLogNoOpLogHandler() }))
        let close = runUntilClosed(store)
        return Stores(store, digests: digests) {
            await close()
            await loops.shutdown()
        }
    }

    /// Runs the store in a background task, which keeps the connections open and writes batches. The returned closure
    /// closes the store and waits for the end of the background task. If the task that calls the closure is cancelled,
    /// the background task is also cancelled, and operations that wait for PostgreSQL fail.
    private static func runUntilClosed(_ store: PostgresEventStore) -> @Sendable () async -> Void {
        let running = Task { await store.run() }
        return {
            await withTaskCancellationHandler {
                await store.close()
                await running.value
            } onCancel: {
                running.cancel()
            }
        }
    }

    private init(_ store: PostgresEventStore, digests: KeyedHashes, close: @escaping @Sendable () async -> Void) {
        let accounts = StoredAccounts(store: store, digests: digests)
        self.init(
            events: store, deadlines: store, journeys: store, refolds: store, retention: store, feed: store,
            eventStatistics: store, operatorReader: store, operatorLists: store, operationHistory: store,
            instances: store, settingsHistory: store, accounts: accounts, accountStatistics: store,
            purchases: StoredPurchases(accounts: accounts), pushes: store, simulatedDrivers: store,
            recordedEvents: store, erasureSearch: store, driverSearch: store, journeyCheck: store,
            refoldTrial: store, status: store, backups: nil,
            sampler: { store.sampler($0) }, loops: [], file: nil, close: close)
    }
}
/// The schema of a PostgreSQL database.
enum PostgresSchema {
    /// The time limit in seconds for connecting and migrating, including the wait for another process that migrates.
    /// Reading the list of migrations afterwards has its own limit of the same length.
    static let seconds = 120

    /// Returns the status of each migration of this binary. If `migrates` is true, applies the missing migrations
    /// first.
    static func result(
        _ configuration: PostgresConfiguration, migrates: Bool, loops: EventLoopGroup,
        atMilliseconds now: Int64 = millisecondsSince1970()
    ) async -> Result<[MigrationStatus], any Error> {
        let loop = loops.loops[0]
        do throws(PostgresMigrationRefusal) {
            if migrates {
                _ = try await PostgresEventStore.migrate(
                    configuration, on: loop, atMilliseconds: now, until: .inSeconds(seconds))
            }
            return .success(
                try await PostgresEventStore.migrationStatus(configuration, on: loop, until: .inSeconds(seconds)))
        } catch {
            return .failure(UnusableDatabase(.postgres(configuration), reason: "\(error)"))
        }
    }
}
