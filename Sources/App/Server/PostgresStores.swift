// Opens a PostgreSQL database, and fills the ports with it.

import Engine
import Identity
import Logging
import Postgres
import PostgresStore
import Sockets
import StructuredLogging

extension Stores {
    /// Connects and migrates. If another server migrates at the same time, waits for it.
    static func postgres(_ configuration: PostgresConfiguration, _ opening: Opening) async throws -> Stores {
        throw UnusableDatabase(.postgres(configuration), reason: "not supported yet")
    }

    static func postgres(existing configuration: PostgresConfiguration, _ digests: KeyedHashes) async throws -> Stores {
        throw UnusableDatabase(.postgres(configuration), reason: "not supported yet")
    }
}

/// The schema of a PostgreSQL database.
enum PostgresSchema {
    /// The time limit in seconds for connecting and migrating. It includes the wait for another process that migrates.
    static let seconds = 120

    /// Returns the migrations of this binary. If `migrates` is true, applies the missing ones first.
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
