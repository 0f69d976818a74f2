// `JourneyReader` on PostgreSQL. The id of an event is its number among the events of its driver (`event.seq`). This
// number never changes.
//
// The numbers of a driver's events ascend in the order of the commits. A batch reads the driver's version and highest
// number, and then gives the next numbers to its events. It commits these events only if the version is still the same,
// so no other batch has given out the same numbers.

package import Engine
package import JourneyModel
import Postgres
import Synchronization

/// The versions of drivers that the last call of `committedChanges` read for the open streams.
struct PolledVersions: Sendable {
    /// The number of this call. The caller passes it to the next call of `committedChanges` as `mark`.
    var mark: Int64 = 0
    var versions: [DriverID: Int64] = [:]
}

extension PostgresEventStore: JourneyReader {
    package func journey(of driver: DriverID) async throws(StoreFailure) -> Journey {
        try await storedDriver(driver)?.journey ?? Journey()
    }

    private func storedDriver(_ driver: DriverID) async throws(StoreFailure) -> StoredDriver? {
        let results = try await read([
            PostgresQuery(
                DriverStatements.read, try await shards().parameters(of: driver) + [.texts([driver.rawValue])])
        ])
        return try decoded { () throws(PostgresError) in
            try results[0].rows.first.map { (row) throws(PostgresError) in try StoredDriver(row) }
        }
    }

    func decoded<Value>(_ value: () throws(PostgresError) -> Value) throws(StoreFailure) -> Value {
        do throws(PostgresError) { return try value() } catch { throw StoreFailure(reading: error) }
    }

    // MARK: Changes

    package func changes(of driver: DriverID, after id: Int64?) async throws(StoreFailure) -> JourneyChanges {
        let stored = try await storedDriver(driver)
        let recent = stored?.recent.changes ?? []
        let newest = recent.last?.seq ?? 0
        if let id, let missed = Self.missed(after: id, newest: newest, stored) {
            let causes = try await causes(missed.map(\.seq), of: stored?.id)
            return .all(missed.map { JourneyChange(id: $0.seq, journey: $0.journey, cause: causes[$0.seq]) })
        }
        let head = RecentJourneyChanges.seen(stored?.journey ?? Journey())
        let causes = try await causes([newest], of: stored?.id)
        return .newest(JourneyChange(id: newest, journey: head, cause: causes[newest]))
    }

    /// Returns the driver's changes after event `id`. Returns nil if some of these changes are no longer stored, or if
    /// `id` is higher than the number of the newest change.
    private static func missed(
        after id: Int64, newest: Int64, _ stored: StoredDriver?
    ) -> [RecentJourneyChanges.Change]? {
        guard id >= 0, id <= newest else { return nil }
        guard let stored else { return [] }
        guard let oldest = stored.recent.changes.first else {
            // No changes are stored. Either the journey has not changed yet, or a refold by new rules or settings has
            // deleted the changes. After such a refold, the reader may have an old state, so it gets the current state.
            //
            // The reader gets the current state even if this state is IDLE, because the reader may know another one.
            // Example: one correction changes the journey, a reader gets the changed state with the id 0, and a second
            // correction restores IDLE.
            return nil
        }
        guard !stored.recent.isFull || oldest.seq <= id else { return nil }
        return stored.recent.changes.filter { $0.seq > id }
    }

    /// Returns the events with the numbers `seqs`, each under its number. Leaves out events that are no longer stored.
    private func causes(
        _ seqs: [Int64], of driver: Int64?
    ) async throws(StoreFailure) -> [Int64: JourneyChange.Cause] {
        guard let driver, seqs.contains(where: { $0 > 0 }) else { return [:] }
        let results = try await read([
            PostgresQuery(
                JourneyStatements.causes,
                try await shards().parameters(ofDriver: driver) + [.int8(driver), .int8s(seqs.map { Optional($0) })])
        ])
        return try decoded { () throws(PostgresError) in
            var causes: [Int64: JourneyChange.Cause] = [:]
            for row in results[0].rows {
                causes[try row.int8(0)] = JourneyChange.Cause(
                    eventID: try row.text(1), name: try Self.name(row, 2), occurredAt: try row.moment(4),
                    source: try row.text(5))
            }
            return causes
        }
    }

    /// Reads two columns: the name, and whether the event has a session.
    static func name(_ row: PostgresRow, _ first: Int) throws(PostgresError) -> EventName {
        guard let name = EventName(canonical: try row.text(first), hasSession: try row.bool(first + 1)) else {
            throw PostgresError(.unreadable, "an event has an unknown name")
        }
        return name
    }

    /// Returns the drivers whose version has changed since the previous call. The store has no number that ascends with
    /// the commits of all instances. So each call reads the versions of all `drivers` and compares them with those of
    /// the previous call.
    ///
    /// If `mark` is not the mark that the previous call returned, the result is `.any`.
    package func committedChanges(
        after mark: Int64?, among drivers: Set<DriverID>
    ) async throws(StoreFailure) -> CommittedChanges {
        var found: [DriverID: Int64] = [:]
        if !drivers.isEmpty {
            let results = try await read(
                shards().queries(JourneyStatements.versions, drivers: drivers.map(\.rawValue)) { [.texts($0)] })
            found = try decoded { () throws(PostgresError) in
                var found: [DriverID: Int64] = [:]
                for row in results.allRows { found[DriverID(try row.text(0))] = try row.int8(1) }
                return found
            }
        }
        return polledVersions.withLock { polled in
            let before = mark == polled.mark ? polled.versions : nil
            polled = PolledVersions(mark: polled.mark + 1, versions: found)
            guard let before else { return CommittedChanges(newest: polled.mark, drivers: .any) }
            let moved = found.filter { before[$0.key] != $0.value }
            return CommittedChanges(newest: polled.mark, drivers: .these(moved.map(\.key)))
        }
    }

    package func driversAwaitingRefold(
        among drivers: Set<DriverID>
    ) async throws(StoreFailure) -> Set<DriverID> {
        guard !drivers.isEmpty else { return [] }
        let results = try await read(
            shards().queries(JourneyStatements.awaitingRefold, drivers: drivers.map(\.rawValue)) {
                [.texts($0), .int8(Fold.rulesVersion)]
            })
        return try decoded { () throws(PostgresError) in
            var found: Set<DriverID> = []
            for row in results.allRows { found.insert(DriverID(try row.text(0))) }
            return found
        }
    }

    /// Returns no drivers; returns `.any` if `id` is nil. A correction raises the version of each driver that it
    /// changes, so `committedChanges` already reports these drivers.
    package func correctedJourneys(after id: Int64?) async throws(StoreFailure) -> CommittedChanges {
        CommittedChanges(newest: 0, drivers: id == nil ? .any : .these([]))
    }

    // MARK: Sessions

    package func sessions(
        of driver: DriverID, limit: Int, after cursor: String?
    ) async throws(StoreFailure) -> SessionPage? {
        var before: SessionSummary?
        if let cursor {
            guard let session = try await session(cursor, of: driver) else { return nil }
            before = session
        }
        let lanes = try await shards().parameters(of: driver)
        let parameters: [PostgresValue] =
            lanes + [
                .text(driver.rawValue), .int8(before?.openedAt.millisecondsSinceEpoch ?? .max),
                .text(before?.sessionID ?? ""), .bool(before == nil), .int8(Int64(limit) + 1),
            ]
        let found = try await read([PostgresQuery(SessionHistoryStatements.page, parameters)])
        let sessions = try decoded { () throws(PostgresError) in
            var sessions: [SessionSummary] = []
            for row in found[0].rows { sessions.append(try Self.summary(row)) }
            return sessions
        }
        let journeys = try await journeys(in: sessions.prefix(limit).map(\.sessionID), of: driver)
        let page = sessions.prefix(limit).map { session in
            var session = session
            session.journey = journeys[TextKey(session.sessionID)]
            return session
        }
        return SessionPage(sessions: Array(page), hasMore: sessions.count > limit)
    }

    package func timeline(
        of sessionID: String, of driver: DriverID, limit: Int, after cursor: Int64?
    ) async throws(StoreFailure) -> TimelineOutcome {
        guard var session = try await session(sessionID, of: driver) else { return .sessionNotFound }
        session.journey = try await journeys(in: [sessionID], of: driver)[TextKey(sessionID)]
        let lanes = try await shards().parameters(of: driver)
        let parameters: [PostgresValue] = lanes + [.text(driver.rawValue), .text(sessionID)]
        var from: Int64 = .min
        if let cursor {
            let found = try await read([PostgresQuery(SessionHistoryStatements.place, parameters + [.int8(cursor)])])
            guard found[0].rowCount == 1 else { return .cursorNotFound }
            from = try decoded { () throws(PostgresError) in try found[0][0].int8(0) }
        }
        let found = try await read([
            PostgresQuery(
                SessionHistoryStatements.timeline,
                parameters + [.int8(cursor ?? 0), .int8(from), .int8(Int64(limit) + 1)])
        ])
        let events = try decoded { () throws(PostgresError) in
            var events: [SessionEvent] = []
            for row in found[0].rows { events.append(try Self.event(row)) }
            return events
        }
        return .found(
            SessionTimeline(session: session, events: Array(events.prefix(limit)), hasMore: events.count > limit))
    }

    private func session(_ sessionID: String, of driver: DriverID) async throws(StoreFailure) -> SessionSummary? {
        let found = try await read([
            PostgresQuery(
                SessionHistoryStatements.one,
                try await shards().parameters(of: driver) + [.text(driver.rawValue), .text(sessionID)])
        ])
        return try decoded { () throws(PostgresError) in
            try found[0].rows.first.map { (row) throws(PostgresError) in try Self.summary(row) }
        }
    }

    /// Returns for each session the journey after the session's last event. If a reset or another session closed the
    /// session, the returned journey is ended.
    ///
    /// Leaves out sessions that were never activated. Does not apply deadlines that have passed since the last event.
    private func journeys(
        in sessions: [String], of driver: DriverID
    ) async throws(StoreFailure) -> [TextKey: Journey] {
        try await journeys(in: sessions.map { (driver, $0) })
    }

    /// Like the method above, for sessions of several drivers.
    func journeys(
        in sessions: [(driver: DriverID, sessionID: String)]
    ) async throws(StoreFailure) -> [TextKey: Journey] {
        guard !sessions.isEmpty else { return [:] }
        let found = try await read(
            shards().queries(SessionHistoryStatements.journeys, sessions, lane: { Lane.of($0.driver.rawValue) }) {
                [.texts($0.map(\.driver.rawValue)), .texts($0.map(\.sessionID))]
            })
        return try decoded { () throws(PostgresError) in
            var journeys: [TextKey: Journey] = [:]
            for row in found.allRows {
                let sessionID = try row.text(0)
                let state = try JourneyColumns.state(try row.int2(1))
                var journey = Journey(
                    state: state, graceDeadline: try row.optionalMoment(2), hardDeadline: try row.optionalMoment(3),
                    endedBy: JourneyColumns.ending(try row.optionalInt2(4)))
                if state.hasSessionInProgress, let isReset = try row.optionalBool(5) {
                    journey = Journey(state: .sessionEnded, endedBy: isReset ? .reset : .superseded)
                }
                journey.sessionID = sessionID
                journeys[TextKey(sessionID)] = journey
            }
            return journeys
        }
    }

    static func summary(_ row: PostgresRow, at first: Int = 0) throws(PostgresError) -> SessionSummary {
        SessionSummary(
            sessionID: try row.text(first), openedAt: try row.moment(first + 1),
            registeredAt: try row.optionalMoment(first + 2), chargerID: try row.optionalText(first + 3),
            merchantID: try row.optionalText(first + 4))
    }

    private static func event(_ row: PostgresRow) throws(PostgresError) -> SessionEvent {
        SessionEvent(
            id: try row.int8(0), eventID: try row.text(1), idempotencyKey: try row.text(2),
            name: try name(row, 3),
            sent: SentMembers(
                source: try row.text(5), appState: try row.optionalText(6), chargerID: try row.optionalText(7),
                merchantID: try row.optionalText(8), sequence: try row.optionalInt8(9),
                details: try row.optionalText(10), sender: try row.optionalText(11)),
            occurredAt: try row.moment(12), occurredAtText: try row.text(13), receivedAt: try row.moment(14),
            settingsVersion: try row.text(15), verdict: try Verdict(row, at: 16),
            state: try JourneyColumns.state(try row.int2(19)),
            endedBy: JourneyColumns.ending(try row.optionalInt2(20)))
    }
}

private enum JourneyStatements {
    static let versions = PostgresStatement(
        "driver_versions",
        """
        SELECT driver.driver_id, driver.version FROM unnest($3::text[]) asked(driver_id)
        JOIN driver ON driver.driver_id = asked.driver_id WHERE \(LaneParameters.condition("driver"))
        """)
    static let awaitingRefold = PostgresStatement(
        "drivers_awaiting_refold",
        """
        SELECT driver.driver_id FROM unnest($3::text[]) asked(driver_id)
        JOIN driver ON driver.driver_id = asked.driver_id
        WHERE \(LaneParameters.condition("driver")) AND driver.rules <> $4::int8
        """)
    static let causes = PostgresStatement(
        "causes",
        """
        SELECT seq, coalesce(event_id, idempotency_key), name, session_id IS NOT NULL, corrected_at_ms, source
        FROM event WHERE driver = $3::int8 AND seq = ANY ($4::int8[]) AND \(LaneParameters.condition("event"))
        """)
}
