// The log lines about a server's start and end. The start line has the versions of the program, the schema and the
// settings, and says which database and Redis are used. The end line is the last line of the log, and says why and how
// the server ended.

import Engine
import Foundation
import Logging
import StructuredLogging
import Synchronization

struct StartAndStopLog: Sendable {
    let logger: Logger
    let startedAtMilliseconds: Int64

    func started(
        _ configuration: Configuration, status: any DatabaseStatus, settings: VersionedSettings
    ) async throws(StoreFailure) {
        let schema = try await status.schema(openedAtMilliseconds: startedAtMilliseconds)
        logger.notice(
            "starting",
            metadata: [
                "version": "\(version)", "pid": .number(ProcessInfo.processInfo.processIdentifier),
                "environment": "\(configuration.environment.rawValue)",
                "database": "\(configuration.database)", "schema": .number(schema.number),
                "migrations_run": .array(schema.migrationsRun.map { "\($0)" }),
                "settings_version": "\(settings.version)",
                "redis": "\(configuration.redis.endpoint.map { "\($0)" } ?? "not configured")",
            ])
    }

    /// Logs the last line of the server's log.
    ///
    /// - Parameters:
    ///   - signal: the signal that requested the shutdown; nil if the services ended without a signal.
    ///   - cutConnections: the number of connections that were still open after `serverDrainSeconds`; nil when the
    ///     server never listened.
    func ended(by signal: Int32?, cutConnections: Int?) {
        let uptime = max(0, millisecondsSince1970() - startedAtMilliseconds)
        var metadata: Logger.Metadata = [
            "reason": "\(signal.map(SignalSource.name) ?? "its services ended")",
            "uptime_seconds": .number(uptime / 1000), "exit_status": .number(0),
        ]
        if let cutConnections {
            metadata["drained"] = .bool(cutConnections == 0)
            metadata["connections_cut"] = .number(cutConnections)
        }
        logger.notice("stopped", metadata: metadata)
    }
}

/// The number of connections that were still open at the end of a server's drain and had to be closed.
final class DrainOutcome: Sendable {
    private let cut = Mutex(0)

    var cutConnections: Int { cut.withLock { $0 } }

    func add(_ count: Int) { cut.withLock { $0 += count } }
}
