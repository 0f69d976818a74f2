// Lists of the events of all drivers, for the operator page. A filter examines a bounded number of events, beginning
// with the newest.

package import Engine
import JourneyModel
import Postgres

extension PostgresEventStore {
    /// Maximum number of events examined for one page.
    static let eventRowsMax: Int64 = 50_000
    /// Positions follow the times of receipt only roughly: an event may have been received up to this many milliseconds
    /// before an event with a lower position. The number exceeds the longest duration of a request.
    private static let receiptsApartMilliseconds: Int64 = 60_000

    package func events(
        _ filter: EventFilter, before cursor: Int64?, limit: Int
    ) async throws(StoreFailure) -> ListPage<EventCase> {
        let apart = Self.receiptsApartMilliseconds
        var (first, before): (Int64, Int64) = (.min, cursor ?? .max)
        if let since = filter.since {
            first = try await firstEvent(receivedFrom: since.advanced(byMilliseconds: -apart))
        }
        if let until = filter.until {
            before = min(before, try await firstEvent(receivedFrom: until.advanced(byMilliseconds: apart)))
        }
        before = min(before, try await settledEnd())
        let range: [PostgresValue] = [.int8(first), .int8(before), .int8(Self.eventRowsMax)]
        let isDiagnostic = filter.name == "diagnostic"
        let parameters: [PostgresValue] =
            range + [
                .int8(filter.since?.millisecondsSinceEpoch ?? .min),
                .int8(filter.until?.millisecondsSinceEpoch ?? .max),
                filter.transition.map { .int2(Int16($0.code)) } ?? .null,
                filter.reason.map { .int2(Int16($0.code)) } ?? .null,
                filter.state.map { .int2(Int16($0.code)) } ?? .null,
                isDiagnostic ? .null : filter.name.map(PostgresValue.text) ?? .null, .bool(isDiagnostic),
                .int8(Int64(limit)),
            ]
        let found = try await read([
            PostgresQuery(EventLists.page, parameters), PostgresQuery(EventLists.lowest, range),
        ])
        return try decoded { () throws(PostgresError) in
            var events: [EventCase] = []
            for row in found[0].rows { events.append(try Self.eventCase(row)) }
            let next = events.count == limit ? events.last?.id : try found[1].rows.first?.optionalInt8(0)
            return ListPage(events, next: next)
        }
    }

    static func eventCase(_ row: PostgresRow) throws(PostgresError) -> EventCase {
        guard let transition = Verdict.Transition(code: Int64(try row.int2(6))) else {
            throw PostgresError(.unreadable, "an unknown transition")
        }
        return EventCase(
            id: try row.int8(0), driver: DriverID(try row.text(1)), name: try row.text(2),
            sessionID: try row.optionalText(3), chargerID: try row.optionalText(4), occurredAt: try row.moment(5),
            transition: transition, reason: try row.optionalInt2(7).flatMap { Verdict.Reason(code: Int64($0)) },
            state: try JourneyColumns.state(try row.int2(8)), endedBy: JourneyColumns.ending(try row.optionalInt2(9)))
    }
}

enum EventLists {
    private static let columns = """
        event.position, driver.driver_id, event.name, event.session_id, event.charger, event.corrected_at_ms,
        event.transition, event.reason, event.after_state, event.after_ended_by
        """
    private static let listed = EventName.listed.map { "'\($0.canonical)'" }.joined(separator: ", ")

    /// Parameters, in this order:
    ///
    /// - the lowest position and the upper bound of the positions (excluded),
    /// - the number of rows to examine,
    /// - the earliest time of receipt and the upper bound of this time (excluded),
    /// - a transition, a reason, a state and a name, each of which may be NULL,
    /// - whether only diagnostic events are wanted,
    /// - the number of rows to return.
    static let page = PostgresStatement(
        "operator_event_page",
        """
        SELECT \(columns) FROM (
            SELECT * FROM event
            WHERE position >= $1::int8 AND position < $2::int8 AND position < \(EventPosition.end)
            ORDER BY position DESC LIMIT $3::int8) event
        JOIN driver ON driver.id = event.driver
        WHERE event.received_at_ms >= $4::int8 AND event.received_at_ms < $5::int8
            AND ($6::int2 IS NULL OR event.transition = $6::int2) AND ($7::int2 IS NULL OR event.reason = $7::int2)
            AND ($8::int2 IS NULL OR event.after_state = $8::int2) AND ($9::text IS NULL OR event.name = $9::text)
            AND (NOT $10::bool OR event.name NOT IN (\(listed)))
        ORDER BY event.position DESC LIMIT $11::int8
        """)

    /// The position of the last event that `page` examines, if events follow it. Parameters: the first three of `page`.
    static let lowest = PostgresStatement(
        "operator_event_page_end",
        """
        SELECT lowest.position FROM (SELECT position FROM event
            WHERE position >= $1::int8 AND position < $2::int8 AND position < \(EventPosition.end)
            ORDER BY position DESC OFFSET $3::int8 - 1 LIMIT 1) lowest
        WHERE lowest.position > (SELECT min(position) FROM event WHERE position >= $1::int8)
        """)

    /// A driver's last events, the newest first. The subquery `last` finds the time of the oldest event in the list by
    /// an index. Only the events from this time on are sorted, because a driver may have many events.
    ///
    /// Parameters: `LaneParameters`, `driver_id`, the number of rows.
    static let ofDriver = PostgresStatement(
        "operator_driver_events",
        """
        SELECT \(columns) FROM driver, LATERAL (
            SELECT coalesce((
                SELECT event.corrected_at_ms FROM event
                WHERE \(RowsInOrder.ofDriver("event")) AND \(LaneParameters.condition("event"))
                ORDER BY event.driver DESC, event.corrected_at_ms DESC LIMIT 1 OFFSET $4::int8 - 1),
                '\(Int64.min)'::int8) AS at_ms
            OFFSET 0) last, LATERAL (
            SELECT * FROM event
            WHERE event.driver = driver.id AND event.corrected_at_ms >= last.at_ms
                AND \(LaneParameters.condition("event"))
            OFFSET 0) event
        WHERE driver.driver_id = $3::text AND \(LaneParameters.condition("driver"))
        ORDER BY event.corrected_at_ms DESC, event.seq DESC LIMIT $4::int8
        """)
}
