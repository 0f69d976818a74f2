// The ports (protocols) through which the server uses its database. SQLiteStores.swift and PostgresStores.swift each
// create a `Stores` value.

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
    /// For `dwell explain`. Nil with SQLite, because the command then reads the database file itself.
    let recordedEvents: (any RecordedEventReader)?
    /// For `dwell verify-erased`; nil with SQLite, like `recordedEvents`.
    let erasureSearch: (any ErasureSearch)?
    /// For `dwell driver find`; nil with SQLite, like `recordedEvents`.
    let driverSearch: (any DriverSearch)?
    /// For `dwell check`; nil with SQLite, like `recordedEvents`.
    let journeyCheck: (any JourneyCheck)?
    /// For `dwell config try` and `dwell refold --dry-run`; nil with SQLite, like `recordedEvents`.
    let refoldTrial: (any RefoldTrying)?
    let status: any DatabaseStatus
    /// Nil if Dwell does not make the backups of the database.
    let backups: (any BackupHistory)?
    /// Creates metrics with the given factory. Returns a function that sets these metrics to the current sizes of the
    /// database's queues and files.
    let sampler: @Sendable (any MetricsFactory) -> (@Sendable () -> Void)
    let loops: [any Service]
    /// The database file; nil if the database is not a file. The server's control socket is beside this file.
    let file: String?
    /// Closes the database after all waiting writes have been answered.
    let close: @Sendable () async -> Void
}

extension Stores {
    /// The values with which a server opens its database.
    struct Opening: Sendable {
        /// The hashes that the database stores instead of codes, phone numbers, addresses and the ids of deleted
        /// drivers.
        var digests: KeyedHashes
        /// The time recorded with the migrations that run.
        var milliseconds: Int64
        /// Counts the refold of a late event against the rate limit of the event's sender, a driver or a service.
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

    /// Opens an existing database for a command. Servers may use the database at the same time. Its schema must be the
    /// schema of this binary.
    static func existing(_ database: Configuration.Database, digests: KeyedHashes) async throws -> Stores {
        switch database {
        case .sqlite(let path): try sqlite(existing: path, digests)
        case .postgres(let configuration): try await postgres(existing: configuration, digests)
        }
    }
}
