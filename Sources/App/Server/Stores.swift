// The ports (protocols) through which the other parts of the process use its database. SQLiteStores.swift and
// PostgresStores.swift each create a `Stores` value. The wiring of the server is the same for both databases.

import CoreMetrics
import Engine
import Identity
import JourneyModel
import Logging
import Push
import RateLimiting
import SQLiteStore
import ServiceLifecycle
import SharedTables
import Sockets

struct Stores: Sendable {
    let events: any EventStore
    let deadlines: any DeadlineStore
    let journeys: any JourneyReader
    let refolds: any SettingsCorrecting
    let retention: any RetentionStore
    let feed: any EventFeed
    let eventStatistics: any EventStatistics
    let operatorReader: any OperatorReader
    let operatorLists: any OperatorListReader
    let operationHistory: any HistoryStore
    let instances: any InstanceStore
    let settingsHistory: any SettingsHistoryStore
    let accounts: StoredAccounts
    let accountStatistics: any AccountStatistics
    let purchases: StoredPurchases
    let pushes: any PushStore & PushQueueStatistics
    let simulatedDrivers: any SimulatedDriverRemoval
    /// Reads the stored events for `dwell explain`. Nil with SQLite, because the command then reads the database file
    /// itself.
    let recordedEvents: (any RecordedEventReader)?
    /// The search of `dwell verify-erased`. Nil with SQLite, because the command then reads the database file itself.
    let erasureSearch: (any ErasureSearch)?
    /// The search of `dwell driver find`. Nil with SQLite, because the command then reads the database file itself.
    let driverSearch: (any DriverSearch)?
    /// The check of `dwell check`. Nil with SQLite, because the command then reads the database file itself.
    let journeyCheck: (any JourneyCheck)?
    /// The trial of `dwell config try` and of `dwell refold --dry-run`. Nil with SQLite, because the commands then read
    /// the database file themselves.
    let refoldTrial: (any RefoldTrying)?
    let status: any DatabaseStatus
    /// Nil if Dwell does not make the backups of the database.
    let backups: (any BackupHistory)?
    /// Creates a sampler: a function that sets metrics to the current sizes of the database's queues and files. The
    /// argument is the factory of these metrics.
    let sampler: @Sendable (any MetricsFactory) -> (@Sendable () -> Void)
    /// The background loops of the database itself. They run for as long as the server runs.
    let loops: [any Service]
    /// The database file; nil if the database is not a file. The server's control socket is beside this file.
    let file: String?
    /// Closes the database after all waiting writes have been answered.
    let close: @Sendable () async -> Void
}

extension Stores {
    /// The values with which a server opens its database.
    struct Opening: Sendable {
        /// The keyed hashes that are stored instead of codes, phone numbers, addresses and the ids of deleted drivers.
        var digests: KeyedHashes
        /// The time recorded with the migrations that run.
        var milliseconds: Int64
        /// Counts refolds against the rate limits. A late event causes a refold, which counts against the limit of the
        /// event's sender: the driver, or a service.
        var charging: any RefoldCharging
        var metrics: any MetricsFactory
        /// The event loops for the connections to the database.
        var loops: EventLoopGroup
        var logger: Logger
    }

    /// Opens the database that the settings name, and migrates it. Creates an SQLite database if it is missing.
    static func open(_ database: Configuration.Database, _ opening: Opening) async throws -> Stores {
        switch database {
        case .sqlite(let path): try sqlite(path, opening)
        case .postgres(let configuration): try await postgres(configuration, opening)
        }
    }

    /// Opens an existing database for a command. The database must have this binary's schema. Servers may use it at the
    /// same time.
    static func existing(_ database: Configuration.Database, digests: KeyedHashes) async throws -> Stores {
        switch database {
        case .sqlite(let path): try sqlite(existing: path, digests)
        case .postgres(let configuration): try await postgres(existing: configuration, digests)
        }
    }
}
