// `RetentionStore` on PostgreSQL. Reads find the rows; small transactions delete them. Events are identified by their
// positions (Events/EventPosition.swift), sessions by their numbers.

package import Engine
package import JourneyModel
import Postgres

extension PostgresEventStore: RetentionStore {
    /// Examines the next part of all events, in the order of their positions. Returns the old events in this part.
    ///
    /// The walk over the parts ends at the first part without old events. Slow requests may put receive times out of
    /// order, so a single recent event does not end the walk.
    ///
    /// If the receive time of the part's last event is in the future, the walk continues even without old events. An
    /// instance's clock was then ahead, and events in later parts may be old.
    package func agedEvents(_ request: AgedEventsRequest) async throws(StoreFailure) -> AgedEvents {
        let found = try await read([
            PostgresQuery(
                Self.agedEvents, [.int8(request.after), .int8(Int64(request.limit)), .int8(try await settledEnd())])
        ])
        return try decoded { () throws(PostgresError) in
            var events: [AgedEvent] = []
            var last: Int64?
            var endsInFuture = false
            for row in found[0].rows {
                let id = try row.int8(0)
                let receivedAt = try row.moment(3)
                last = id
                endsInFuture = receivedAt > request.now
                let before = id <= request.forwarded ? request.receivedBefore : request.unforwardedBefore
                guard receivedAt < before else { continue }
                events.append(AgedEvent(id: id, driver: try row.int8(1), correctedAt: try row.moment(2)))
            }
            let hasNext = found[0].rowCount == request.limit && (!events.isEmpty || endsInFuture)
            return AgedEvents(events: events, next: hasNext ? last : nil)
        }
    }

    package func delete(_ events: ArraySlice<AgedEvent>) async throws(StoreFailure) -> Int {
        let events = Array(events)
        let shards = try await shards()
        return try await inTransaction { (connection, deadline) async throws(PostgresError) in
            try await RetentionHorizon.delete(events, shards, on: connection, until: deadline)
        }
    }

    /// Returns the numbers of old sessions that retention has to change. The read may take long: it examines all old
    /// sessions that a journey still names, and each driver who has stopped driving may have such a session.
    package func agedSessions(
        openedBefore: Moment, after number: Int64, limit: Int
    ) async throws(StoreFailure) -> [Int64] {
        let found = try await readLong(
            Self.aged(AgedRows.sessions, after: number, before: openedBefore, limit: limit),
            seconds: Self.searchSeconds)
        return try decoded { () throws(PostgresError) in
            var numbers: [Int64] = []
            for row in found.rows { numbers.append(try row.int8(0)) }
            return numbers
        }
    }

    package func delete(
        sessions: ArraySlice<Int64>, openedBefore: Moment
    ) async throws(StoreFailure) -> Int {
        let numbers = Array(sessions)
        let shards = try await shards()
        return try await inTransaction { (connection, deadline) async throws(PostgresError) in
            try await AgedRows.delete(
                sessions: numbers, openedBefore: openedBefore, shards, on: connection, until: deadline)
        }
    }

    package func unusedRegistrations(
        before: Moment, at now: Moment, after number: Int64, limit: Int
    ) async throws(StoreFailure) -> AgedNumbers {
        try await agedNumbers(AgedRows.registrations, before: before, at: now, after: number, limit: limit)
    }

    package func agedAuditLines(
        before: Moment, at now: Moment, after number: Int64, limit: Int
    ) async throws(StoreFailure) -> AgedNumbers {
        try await agedNumbers(AgedRows.auditLines, before: before, at: now, after: number, limit: limit)
    }

    package func delete(auditLines: ArraySlice<Int64>) async throws(StoreFailure) -> Int {
        let numbers = PostgresValue.int8s(auditLines.map { $0 })
        return try await inTransaction { (connection, deadline) async throws(PostgresError) in
            let results = try await connection.run(
                [PostgresQuery(AgedRows.deleteAuditLines, [numbers])], until: deadline)
            return Int(try results[0][0].int8(0))
        }
    }

    /// Returns the receive time of the event with the lowest position; nil if there is no event.
    package func oldestEventReceivedAt() async throws(StoreFailure) -> Moment? {
        try await receivedAt(ofFirstEventAfter: .min)
    }

    // MARK: Reading

    private static func aged(
        _ statement: PostgresStatement, after number: Int64, before: Moment, limit: Int
    ) -> PostgresQuery {
        PostgresQuery(statement, [.int8(number), .int8(before.millisecondsSinceEpoch), .int8(Int64(limit))])
    }

    /// Examines the next part of all sessions or audit entries. Returns the numbers to delete. Numbers ascend with
    /// time, so the walk over the parts ends if the last row of this part is recent.
    ///
    /// A last row whose time is in the future does not end the walk. An instance's clock was then ahead, and rows with
    /// higher numbers may be old.
    private func agedNumbers(
        _ statement: PostgresStatement, before: Moment, at now: Moment, after number: Int64, limit: Int
    ) async throws(StoreFailure) -> AgedNumbers {
        let found = try await read([Self.aged(statement, after: number, before: before, limit: limit)])
        return try decoded { () throws(PostgresError) in
            var numbers: [Int64] = []
            var last: (number: Int64, at: Moment)?
            for row in found[0].rows {
                last = (try row.int8(0), try row.moment(1))
                if try row.bool(2) { numbers.append(try row.int8(0)) }
            }
            let isLast = last.map { $0.at >= before && $0.at <= now } ?? true
            return AgedNumbers(
                numbers: numbers, next: isLast || found[0].rowCount < limit ? nil : last?.number,
                endsInFuture: last.map { $0.at > now } ?? false)
        }
    }

    /// Parameters: the position after which to begin, the number of rows, `settledEnd`.
    private static let agedEvents = PostgresStatement(
        "aged_events",
        """
        SELECT position, driver, corrected_at_ms, received_at_ms FROM event
        WHERE position > $1::int8 AND position < \(EventPosition.end(settled: "$3"))
        ORDER BY position LIMIT $2::int8
        """)
}
