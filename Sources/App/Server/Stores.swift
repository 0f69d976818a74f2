// The database of one process, as the ports that the other parts use. SQLiteStores fills them. No other file of the
// wiring knows which database it is.

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
import StructuredLogging

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
    let purchases: SQLitePurchases
    let pushes: any PushStore
    let pushQueue: any PushQueueStatistics
    let simulatedDrivers: any SimulatedDriverRemoval
    let status: any DatabaseStatus
    /// Nil if Dwell does not make the backups of the database.
    let backups: (any BackupHistory)?
    /// Returns a function that writes the sizes of queues and files to metrics of the factory.
    let sampler: @Sendable (any MetricsFactory) -> (@Sendable () -> Void)
    /// The background loops of the database itself. They run for as long as the server runs.
    let loops: [any Service]
}

extension Stores {
    /// What a store needs when it is opened.
    struct Opening: Sendable {
        /// Computes the keyed hashes that identify deleted drivers.
        var digests: KeyedHashes
        /// The time recorded with the migrations that run.
        var milliseconds = millisecondsSince1970()
        /// Charges the rate limiter for the refolds that late events cause. If nil, refolds are not charged.
        var charging: (any RefoldCharging)?
        var metrics: any MetricsFactory = NOOPMetricsHandler.instance
        var logger: Logger
    }

    /// Opens the database that the settings name, and migrates it. Creates an SQLite database if it is missing.
    static func open(_ configuration: Configuration, _ opening: Opening) throws -> Stores {
        try sqlite(configuration.databasePath, opening)
    }
}
