// The eight columns of a journey (in the tables driver, event and journey_base), and the three columns of a verdict.

import Engine
import JourneyModel
import Postgres

enum JourneyColumns {
    /// The columns of `driver` and `journey_base`, in the order in which `Journey(_:at:)` reads them.
    static let head = """
        state, session_id, target_charger, next_target_charger, grace_deadline_ms, hard_deadline_ms, ended_by,
        previous_session_id
        """
    /// The columns of `event`, in the same order.
    static let after = """
        after_state, after_session_id, after_target_charger, after_next_target_charger, after_grace_deadline_ms,
        after_hard_deadline_ms, after_ended_by, after_previous_session_id
        """
    static let count = 8

    /// Returns the columns for writing. `prefix` is "" or "after_".
    static func columns<Row>(
        _ prefix: String, _ journey: @escaping @Sendable (Row) -> Journey
    ) -> [ArrayColumn<Row>] {
        [
            .int2("\(prefix)state") { Int16(journey($0).state.code) },
            .text("\(prefix)session_id") { journey($0).sessionID },
            .text("\(prefix)target_charger") { journey($0).targetChargerID },
            .text("\(prefix)next_target_charger") { journey($0).nextTargetChargerID },
            .int8("\(prefix)grace_deadline_ms") { journey($0).graceDeadline?.millisecondsSinceEpoch },
            .int8("\(prefix)hard_deadline_ms") { journey($0).hardDeadline?.millisecondsSinceEpoch },
            .int2("\(prefix)ended_by") { journey($0).endedBy.map { Int16($0.code) } },
            .text("\(prefix)previous_session_id") { journey($0).previousSessionID },
        ]
    }

    static func ending(_ code: Int16?) -> Journey.Ending? {
        code.flatMap { Journey.Ending(code: Int64($0)) }
    }

    static func state(_ code: Int16) throws(PostgresError) -> JourneyState {
        guard let state = JourneyState(code: Int64(code)) else { throw PostgresError(.unreadable, "an unknown state") }
        return state
    }
}

extension Journey {
    init(_ row: PostgresRow, at first: Int) throws(PostgresError) {
        self.init(
            state: try JourneyColumns.state(try row.int2(first)), sessionID: try row.optionalText(first + 1),
            targetChargerID: try row.optionalText(first + 2), nextTargetChargerID: try row.optionalText(first + 3),
            graceDeadline: try row.optionalMoment(first + 4), hardDeadline: try row.optionalMoment(first + 5),
            endedBy: JourneyColumns.ending(try row.optionalInt2(first + 6)),
            previousSessionID: try row.optionalText(first + 7))
    }
}

extension Verdict {
    /// The columns in the order in which `init(_:at:)` reads them.
    static let columnNames = "transition, reason, implied"

    static func columns<Row>(_ verdict: @escaping @Sendable (Row) -> Verdict) -> [ArrayColumn<Row>] {
        [
            .int2("transition") { Int16(verdict($0).transition.code) },
            .int2("reason") { verdict($0).reason.map { Int16($0.code) } },
            .int2("implied") { Int16(verdict($0).implied.code) },
        ]
    }

    init(_ row: PostgresRow, at first: Int) throws(PostgresError) {
        guard let transition = Transition(code: Int64(try row.int2(first))) else {
            throw PostgresError(.unreadable, "an unknown transition")
        }
        let reason = try row.optionalInt2(first + 1)
        self.init(
            transition, reason: reason.flatMap { Reason(code: Int64($0)) },
            implied: ImpliedSteps(code: Int64(try row.int2(first + 2))) ?? [])
    }
}

extension PostgresRow {
    func moment(_ column: Int) throws(PostgresError) -> Moment {
        Moment(millisecondsSinceEpoch: try int8(column))
    }

    func optionalMoment(_ column: Int) throws(PostgresError) -> Moment? {
        try optionalInt8(column).map(Moment.init(millisecondsSinceEpoch:))
    }
}
