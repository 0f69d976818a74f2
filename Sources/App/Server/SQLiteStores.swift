// Opens an SQLite database, and creates the `Stores` value through which the process uses it.

import CoreMetrics
import Engine
import Foundation
import Identity
import JourneyModel
import Logging
import RateLimiting
import SQLiteStore
import SharedTables
import StructuredLogging

extension Stores {
    /// Opens the database and migrates it. Creates the file and its directory if they are missing.
    static func sqlite(_ path: String, _ opening: Opening) throws -> Stores {
        let store = try SQLiteFile.open(
            path, atMilliseconds: opening.milliseconds, digests: opening.digests, charging: opening.charging,
            metrics: opening.metrics,
            report: { opening.logger.notice("migrating the database", metadata: ["step": "\($0)"]) })
        return Stores(store, path: path, digests: opening.digests, logger: opening.logger)
    }

    static func sqlite(existing path: String, _ digests: KeyedHashes) throws -> Stores {
        let logger = Logger(label: "dwell", factory: { _ in SwiftLogNoOpLogHandler() })
        return Stores(
            try SQLiteEventStore(existing: path, digests: digests), path: path, digests: digests, logger: logger)
    }

    private init(_ store: SQLiteEventStore, path: String, digests: KeyedHashes, logger: Logger) {
        let accounts = StoredAccounts(store: store, digests: digests)
        let truncation = WALTruncation(log: store, bytesMax: SQLiteEventStore.logBytesMax, logger: logger)
        self.init(
            events: store, deadlines: store, journeys: store, refolds: store, retention: store, feed: store,
            eventStatistics: store, operatorReader: store, operatorLists: store, operationHistory: store,
            instances: store, settingsHistory: store, accounts: accounts, accountStatistics: store,
            purchases: StoredPurchases(accounts: accounts), pushes: store, simulatedDrivers: store,
            recordedEvents: nil, erasureSearch: nil, driverSearch: nil, journeyCheck: nil,
            refoldTrial: nil, status: store, backups: store,
            sampler: { store.sampler(path: path, $0) },
            loops: [LoopService(loop: truncation.run)], file: path, close: store.close)
    }
}

enum SQLiteFile {
    /// Opens the database and migrates it. Creates the file and its directory if they are missing. Passes the progress
    /// of a long migration to `report`, which by default writes it to standard error.
    static func open(
        _ path: String, atMilliseconds now: Int64 = millisecondsSince1970(), digests: KeyedHashes? = nil,
        charging: (any RefoldCharging)? = nil, metrics: any MetricsFactory = NOOPMetricsHandler.instance,
        report: (RebuildReport) -> Void = { writeToStandardError("\($0)\n") }
    ) throws -> SQLiteEventStore {
        let folder = URL(fileURLWithPath: path).deletingLastPathComponent()
        do {
            try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
        } catch {
            // Cast the underlying error to POSIXError, because on Linux, a cast from Any to NSError returns nil.
            let cause = (error as NSError).userInfo[NSUnderlyingErrorKey] as? POSIXError
            let text = cause.map { ": " + String(cString: strerror($0.code.rawValue)) } ?? ""
            throw UnusableDatabase(
                .sqlite(path: path), reason: "its directory \(folder.path) cannot be created\(text)")
        }
        do {
            return try SQLiteEventStore(
                path: path, nowMilliseconds: now, digests: digests, charging: charging, metrics: metrics,
                report: report)
        } catch {
            throw UnusableDatabase(.sqlite(path: path), error)
        }
    }

    /// Opens an existing Dwell database and migrates it. Throws if the file is missing.
    static func open(existing path: String) throws -> SQLiteEventStore {
        guard FileManager.default.fileExists(atPath: path) else {
            throw UnusableDatabase(.sqlite(path: path), reason: "file not found")
        }
        do {
            // Reading the status fails for an empty file, because it has no schema. This function must not migrate such
            // a file: only a server and `dwell migrate` may create a schema.
            _ = try DatabaseOpening.status(path: path)
        } catch {
            throw UnusableDatabase(.sqlite(path: path), error)
        }
        return try open(path)
    }
}
