// The tables that a transfer from SQLite to PostgreSQL copies, and the tables that it leaves out, each with the reason.
// A test compares these lists with both schemas.

package enum TransferredTables {
    /// Tables that are copied driver by driver while servers may still use SQLite. In SQLite, `event` is a view of the
    /// table `event_row`.
    package static let ofDrivers = ["driver", "journey_base", "session", "event"]

    /// Tables that are copied whole in the last pass. A table comes after the tables to which it refers. Both databases
    /// use the same names of tables and columns.
    ///
    /// The target replaces the source's row numbers in the column `driver` with its own.
    package static let shared = [
        "settings_version", "settings_correction", "account", "apple_identity", "apple_refresh_token", "phone_identity",
        "sign_in_session", "refresh_token", "apple_nonce", "apple_notice", "apple_revocation", "asked_code",
        "one_time_code_guess", "one_time_code_send", "session_code", "device", "push_outbox", "erased_driver",
        "revocation", "audit", "app_account_token", "purchase", "purchase_signer", "purchase_transaction",
        "purchase_renewal", "store_notification", "notification_history", "consumption_consent", "consumption_request",
        "feed_consumer", "settings_change", "settings_reload", "operation_count",
    ]

    /// Tables of SQLite that are left out, with the reason.
    package static let leftOut = [
        "schema_migration": "the target has its own migrations",
        "place": "rows of the target contain the text itself",
        "event_kind": "rows of the target contain the texts themselves",
        "place_use": "tells which drivers share a row of place",
        "event_kind_use": "tells which drivers share a row of event_kind",
        "event_key": "the target finds idempotency keys by an index",
        "event_key_early": "belongs to event_key",
        "event_key_hash": "belongs to event_key",
        "event_key_progress": "belongs to event_key",
        "write_probe": "tests whether the file can be written",
        "last_backup": "the target is backed up with PostgreSQL's own tools",
        "one_time_code": "codes of a release before migration 14, which have expired",
        "refold": "the target folds a driver again from the first event",
        "erasure": "a transfer ends only when no deletion is unfinished",
        "corrected_journey": "wakes the open streams of servers on the file",
        "instance": "each server adds its own row",
    ]

    /// Tables of PostgreSQL to which nothing is copied, with the reason.
    package static let onlyInTarget = [
        "schema_migration": "the target has its own migrations",
        "event_position": "belongs to the transaction numbers of the target",
        "session_owner": "follows from session",
        "erasure": "a transfer ends only when no deletion is unfinished",
        "instance": "each server adds its own row",
    ]
}
