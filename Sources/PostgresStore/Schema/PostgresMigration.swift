// The migrations in the binary. Their files are in `migrations/postgresql/` at the top of the repository. The symbolic
// link `Migrations` includes them in this target.
//
// A new file needs an entry in `all`. A test compares this list with the folder.

internal import Crypto

package struct PostgresMigration: Sendable {
    /// 1, 2, 3, ... without gaps.
    package var number: Int64
    package var name: String
    package var sql: String

    package init(number: Int64, name: String, sql: String) {
        (self.number, self.name, self.sql) = (number, name, sql)
    }

    /// SHA-256 of the text, 64 lowercase hexadecimal digits.
    package var checksum: String {
        SHA256.hash(data: Array(sql.utf8)).map { byte in
            (byte < 16 ? "0" : "") + String(byte, radix: 16)
        }.joined()
    }

    /// All migrations, in the order in which they run. For the file 0001_events.sql, SwiftPM provides the constant
    /// `_001_events_sql`.
    package static let all = [
        PostgresMigration(
            number: 1, name: "events", sql: String(decoding: PackageResources._001_events_sql, as: UTF8.self)),
        PostgresMigration(
            number: 2, name: "shared_tables",
            sql: String(decoding: PackageResources._002_shared_tables_sql, as: UTF8.self)),
        PostgresMigration(
            number: 3, name: "erasure", sql: String(decoding: PackageResources._003_erasure_sql, as: UTF8.self)),
        PostgresMigration(
            number: 4, name: "corrections", sql: String(decoding: PackageResources._004_corrections_sql, as: UTF8.self)),
        PostgresMigration(
            number: 5, name: "half_digests",
            sql: String(decoding: PackageResources._005_half_digests_sql, as: UTF8.self)),
        PostgresMigration(
            number: 6, name: "citus", sql: String(decoding: PackageResources._006_citus_sql, as: UTF8.self)),
        PostgresMigration(
            number: 7, name: "notification_history",
            sql: String(decoding: PackageResources._007_notification_history_sql, as: UTF8.self)),
        PostgresMigration(
            number: 8, name: "audit_refusals",
            sql: String(decoding: PackageResources._008_audit_refusals_sql, as: UTF8.self)),
    ]
}
