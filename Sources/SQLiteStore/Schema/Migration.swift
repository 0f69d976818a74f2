// The migrations embedded in this binary. They are in the folder `migrations/` at the top of the repository, to which
// this target has the symbolic link `Migrations`. A new file needs a line in `all`, which a test compares with the
// folder.

import Crypto
import JourneyModel

package struct Migration: Sendable {
    /// The migration's number. Numbers are 1, 2, 3, ... without gaps.
    package var number: Int
    package var name: String
    package var sql: String

    package init(number: Int, name: String, sql: String) {
        self.number = number
        self.name = name
        self.sql = sql
    }

    init(_ number: Int, _ name: String, _ resource: [UInt8]) {
        self.init(number: number, name: name, sql: String(decoding: resource, as: UTF8.self))
    }

    /// SHA-256 of the text, 64 lowercase hexadecimal digits.
    package var checksum: String {
        SHA256.hash(data: Array(sql.utf8)).hexadecimal
    }

    /// All migrations, in the order in which they run. SwiftPM makes the file 0001_events.sql available as the constant
    /// `_001_events_sql`.
    package static let all: [Migration] = [
        Migration(1, "events", PackageResources._001_events_sql),
        Migration(2, "journeys", PackageResources._002_journeys_sql),
        Migration(3, "accounts", PackageResources._003_accounts_sql),
        Migration(4, "feed", PackageResources._004_feed_sql),
        Migration(5, "settings_change", PackageResources._005_settings_change_sql),
        Migration(6, "retention", PackageResources._006_retention_sql),
        Migration(7, "last_backup", PackageResources._007_last_backup_sql),
        Migration(8, "clocks", PackageResources._008_clocks_sql),
        Migration(9, "text_uses", PackageResources._009_text_uses_sql),
        Migration(10, "operation_count", PackageResources._010_operation_count_sql),
        Migration(11, "settings_reload", PackageResources._011_settings_reload_sql),
        Migration(12, "evidence", PackageResources._012_evidence_sql),
        Migration(13, "bounds", PackageResources._013_bounds_sql),
        Migration(14, "codes", PackageResources._014_codes_sql),
        Migration(15, "settings_note", PackageResources._015_settings_note_sql),
        Migration(16, "purchases", PackageResources._016_purchases_sql),
        Migration(17, "refold", PackageResources._017_refold_sql),
        Migration(18, "erasure", PackageResources._018_erasure_sql),
        Migration(19, "consumption", PackageResources._019_consumption_sql),
        Migration(20, "event_details", PackageResources._020_event_details_sql),
        Migration(21, "sender", PackageResources._021_sender_sql),
        Migration(22, "session_code", PackageResources._022_session_code_sql),
        Migration(23, "push", PackageResources._023_push_sql),
        Migration(24, "settings_rules", PackageResources._024_settings_rules_sql),
        Migration(25, "settings_correction", PackageResources._025_settings_correction_sql),
        Migration(26, "lean_events", PackageResources._026_lean_events_sql),
        Migration(27, "newest_keys", PackageResources._027_newest_keys_sql),
        Migration(28, "notification_history", PackageResources._028_notification_history_sql),
        Migration(29, "key_move", PackageResources._029_key_move_sql),
        Migration(30, "registered_charger", PackageResources._030_registered_charger_sql),
        Migration(31, "charger_place", PackageResources._031_charger_place_sql),
        Migration(32, "audit_refusals", PackageResources._032_audit_refusals_sql),
    ]
}
