// The columns of PostgreSQL's tables of drivers, events and sessions, each with the SQL expression that reads its value
// from SQLite. SQLite keeps some texts in a separate table, and refers to them by row number. The expressions read the
// texts.
//
// PostgreSQL gives an event two numbers: one among the driver's events, and a position in the feed. A transfer sets
// both to the event's number in SQLite. The cursors of clients and the positions of consumers therefore stay valid.

import JourneyModel

struct TransferColumns {
    /// PostgreSQL's name of the table.
    let table: String
    let names: [String]
    /// Its only parameter is a JSON array with the row numbers of drivers or of events.
    let sql: String

    private init(_ table: String, from: String, _ columns: KeyValuePairs<String, String>) {
        self.table = table
        names = columns.map(\.key)
        sql = "SELECT \(columns.map { "\($0.value) AS \($0.key)" }.joined(separator: ", ")) FROM \(from)"
    }

    /// SQLiteTransferSource adds the column `last_seq`. The target of the transfer computes the columns of its table
    /// `driver` that are missing here.
    static let driver = TransferColumns(
        "driver", from: "json_each(?1) AS listed CROSS JOIN driver ON driver.id = listed.value",
        [
            "number": "driver.id", "driver_id": "driver_id", "version": "1", "created_at_ms": "created_at_ms",
            "last_correction_ms": "last_correction_ms", "clock_memory": "clock_memory", "head_seq": "head_event",
            "head_corrected_at_ms": "head_corrected_at_ms", "state": "state", "session_id": session("driver.session"),
            "target_charger": place("target_charger"), "next_target_charger": place("next_target_charger"),
            "grace_deadline_ms": "grace_deadline_ms", "hard_deadline_ms": "hard_deadline_ms", "ended_by": "ended_by",
            "previous_session_id": session("previous_session"), "floor_at_ms": "floor_at_ms", "rules": "rules",
        ])

    static let journeyBase = TransferColumns(
        "journey_base", from: "json_each(?1) AS listed CROSS JOIN journey_base ON journey_base.driver = listed.value",
        [
            "driver": "driver", "state": "state", "session_id": session("journey_base.session"),
            "target_charger": place("target_charger"), "next_target_charger": place("next_target_charger"),
            "grace_deadline_ms": "grace_deadline_ms", "hard_deadline_ms": "hard_deadline_ms", "ended_by": "ended_by",
            "previous_session_id": session("previous_session"),
        ])

    /// Old releases stored the charger and merchant of a registration in `charger` and `merchant`.
    static let session = TransferColumns(
        "session", from: "json_each(?1) AS listed CROSS JOIN session ON session.driver = listed.value",
        [
            "driver": "driver", "number": "session.id", "session_id": "session_id", "opened_at_ms": "opened_at_ms",
            "registered_at_ms": "registered_at_ms",
            "registered_charger": "coalesce(registered_charger, \(place("charger")))",
            "registered_merchant": "coalesce(registered_merchant, \(place("merchant")))",
        ])

    static let event = TransferColumns(
        "event",
        from: "\(DriverEvents.listedSQL("?1")) CROSS JOIN event_kind ON event_kind.id = event.kind",
        [
            "driver": "driver", "seq": "event.id", "position": "event.id", "idempotency_key": "idempotency_key",
            "event_id": "event_id", "digest": "digest", "name": "name", "spelling": "spelling",
            "schema_version": "schema_version", "source": "source", "app_state": "app_state",
            "lifecycle_rank": "lifecycle_rank", "origin": "origin", "sender": "sender",
            "session_id": session("event.session"), "charger": place("event.charger"),
            "merchant": place("event.merchant"), "settings_version": version("event.settings_version"),
            "fold_settings": version("event.fold_settings"), "occurred_at": "occurred_at",
            "occurred_at_ms": "occurred_at_ms", "corrected_at_ms": "corrected_at_ms", "skew_ms": "skew_ms",
            "clock_rule": "clock_rule", "sent_at_ms": "sent_at_ms", "timestamp_ms": "timestamp_ms",
            "received_at_ms": "received_at_ms", "sequence": "sequence", "previous_state": "previous_state",
            "metadata": "metadata", "details": "details", "transition": "transition", "reason": "reason",
            "implied": "implied", "after_state": "after_state", "after_session_id": session("after_session"),
            "after_target_charger": place("after_target_charger"),
            "after_next_target_charger": place("after_next_target_charger"),
            "after_grace_deadline_ms": "after_grace_deadline_ms", "after_hard_deadline_ms": "after_hard_deadline_ms",
            "after_ended_by": "after_ended_by", "after_previous_session_id": session("after_previous_session"),
            "second_place": "second_place", "closed_session_id": session("event.closed_session"),
        ])

    /// The columns of SQLite's tables that a transfer does not copy, each with the reason.
    static let leftOut = [
        "driver.chain": "links the events of a driver",
        "event_row.previous": "links the events of a driver",
        "event_row.jump": "links the events of a driver",
    ]

    /// Returns the SQL expression for a column of a shared table. Where SQLite has the row number of a session or of
    /// settings, PostgreSQL has the session's id or the settings' version.
    static func shared(_ table: String, _ column: String) -> String {
        switch (table, column) {
        case ("session_code", "session"), ("push_outbox", "session"): session("\(table).session")
        case ("settings_correction", "settings"), ("settings_correction", "instead_of"):
            version("settings_correction.\(column)")
        default: column
        }
    }

    /// Returns the SQL condition for the rows of a shared table that are copied. A row of `session_code` is left out if
    /// its session no longer exists, because PostgreSQL needs the session's id.
    static func isCopied(_ table: String) -> String {
        table == "session_code" ? "\(session("session_code.session")) IS NOT NULL" : "TRUE"
    }

    private static func session(_ column: String) -> String {
        "(SELECT named.session_id FROM session AS named WHERE named.id = \(column))"
    }

    private static func place(_ column: String) -> String {
        "(SELECT place_id FROM place WHERE place.id = \(column))"
    }

    private static func version(_ column: String) -> String {
        "(SELECT named.version FROM settings_version AS named WHERE named.id = \(column))"
    }
}
