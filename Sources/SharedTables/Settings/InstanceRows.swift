// The servers that run on this database, each with a heartbeat and its settings. The settings are stored to detect
// differences between servers.

package import Engine
package import JourneyModel

package enum InstanceRows {
    /// Milliseconds without a heartbeat after which a row is deleted.
    static let keptMilliseconds: Int64 = 24 * 3600 * 1000
    /// Maximum number of rows. If more servers are stored, the rows with the oldest heartbeats are deleted.
    package static let countMax = 64
}

extension SQLDatabase {
    /// Inserts or updates the server's own row. Deletes outdated rows, and rows beyond `InstanceRows.countMax`.
    package func heartbeat(_ instance: Instance) async throws(StoreFailure) {
        try await change { db in
            try db.execute(
                sql: """
                    INSERT INTO instance (name, version, settings_version, settings, started_at_ms, heartbeat_at_ms)
                    VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT (name) DO UPDATE SET
                        version = excluded.version, settings_version = excluded.settings_version,
                        settings = excluded.settings, started_at_ms = excluded.started_at_ms,
                        heartbeat_at_ms = excluded.heartbeat_at_ms
                    """,
                arguments: [
                    instance.name, instance.version, instance.settingsVersion, instance.encodedSettings,
                    instance.startedAt, instance.heartbeatAt,
                ])
            try db.execute(
                sql: """
                    DELETE FROM instance WHERE heartbeat_at_ms < ?1 OR name NOT IN (
                        SELECT name FROM instance ORDER BY heartbeat_at_ms DESC LIMIT ?2)
                    """,
                arguments: [
                    instance.heartbeatAt.millisecondsSinceEpoch - InstanceRows.keptMilliseconds, InstanceRows.countMax,
                ])
        }
    }

    /// Deletes the row of a server that has ended, unless another server with the same name has started since.
    package func removeInstance(_ name: String, startedAt: Moment) async throws(StoreFailure) {
        try await change { db in
            _ = try db.execute(
                sql: "DELETE FROM instance WHERE name = ? AND started_at_ms = ?",
                arguments: [name, startedAt])
        }
    }

    /// Returns the servers, sorted by name.
    package func instances() async throws(StoreFailure) -> [Instance] {
        try await read { db in
            try SQLRow.fetchAll(
                db,
                sql: """
                    SELECT name, version, settings_version, settings, started_at_ms, heartbeat_at_ms FROM instance
                    ORDER BY name LIMIT \(InstanceRows.countMax)
                    """
            ).map { row in
                try Instance(
                    name: row[0], version: row[1], settingsVersion: row[2],
                    settings: Instance.settings(encoded: row[3]), startedAt: row[4], heartbeatAt: row[5])
            }
        }
    }
}

extension Instance {
    fileprivate var encodedSettings: String {
        var writer = JSONWriter(reservingBytes: 4096)
        writer.beginObject()
        for (name, value) in settings.sorted(by: { $0.key < $1.key }) {
            writer.name(name)
            writer.string(value)
        }
        writer.endObject()
        return String(decoding: writer.bytes, as: UTF8.self)
    }

    fileprivate static func settings(encoded: String) -> [String: String] {
        guard case .object(let members)? = try? JSONValue.parse(Array(encoded.utf8)) else { return [:] }
        return members.reduce(into: [:]) { settings, member in
            if case .string(let text) = member.value { settings[member.name] = text }
        }
    }
}
