// The statements on sessions and their owners.

import Engine
import JourneyModel
import Postgres

/// The row of a session that a batch opens or registers.
struct SessionRow: Sendable {
    var driver: Int64
    var sessionID: String
    var openedAt: Moment
    var registeredAt: Moment?
    var registeredCharger: String?
    var registeredMerchant: String?

    private static let columns: [ArrayColumn<SessionRow>] = [
        .int8("driver") { $0.driver },
        .text("session_id") { $0.sessionID },
        .int8("opened_at_ms") { $0.openedAt.millisecondsSinceEpoch },
        .int8("registered_at_ms") { $0.registeredAt?.millisecondsSinceEpoch },
        .text("registered_charger") { $0.registeredCharger },
        .text("registered_merchant") { $0.registeredMerchant },
    ]

    /// Inserts new sessions, and updates the registration of stored ones. Skips sessions of drivers whom this
    /// transaction has not updated. Keeps the given order: if two sessions have the same opening time, the later row
    /// must get the higher number.
    static let write = PostgresStatement(
        "sessions_written",
        """
        INSERT INTO session (lane, \(ArrayColumn.names(columns)))
        SELECT driver.lane, \(ArrayColumn.names(columns, of: "given"))
        FROM \(ArrayColumn.unnest(columns, from: 4, as: "given", numbered: "place")),
            \(RowByKey.movedDriver("given.driver"))
        ORDER BY given.place
        ON CONFLICT (driver, session_id, lane) DO UPDATE SET registered_at_ms = excluded.registered_at_ms,
            registered_charger = excluded.registered_charger, registered_merchant = excluded.registered_merchant
        """)

    static func writeQuery(_ sessions: [SessionRow], batch: Int64) -> PostgresQuery {
        PostgresQuery(write, LaneParameters.any + [.int8(batch)] + columns.map { $0.values(sessions) })
    }
}

extension SessionRow {
    /// Writes one session on Citus. With VALUES, the insert runs on the worker. With a SELECT as in `write`, it would
    /// run on the coordinator, because only the coordinator has the sequence for the session's number.
    private static let writeOne = PostgresStatement(
        "session_written",
        """
        INSERT INTO session (lane, \(ArrayColumn.names(columns))) VALUES ($1, $2, $3, $4, $5, $6, $7)
        ON CONFLICT (driver, session_id, lane) DO UPDATE SET registered_at_ms = excluded.registered_at_ms,
            registered_charger = excluded.registered_charger, registered_merchant = excluded.registered_merchant
        """)

    var writeOneQuery: PostgresQuery {
        let time = registeredAt.map { PostgresValue.int8($0.millisecondsSinceEpoch) } ?? .null
        return PostgresQuery(
            Self.writeOne,
            [
                .int2(Lane.of(driver: driver)), .int8(driver), .text(sessionID), .int8(openedAt.millisecondsSinceEpoch),
                time, registeredCharger.map(PostgresValue.text) ?? .null,
                registeredMerchant.map(PostgresValue.text) ?? .null,
            ])
    }
}

/// The claim of a driver to a new session.
struct SessionClaim: Sendable {
    var sessionID: String
    /// The `driver.id` of this driver.
    var owner: Int64
    var at: Moment

    private static let columns: [ArrayColumn<SessionClaim>] = [
        .int2("lane") { Lane.of($0.sessionID) },
        .text("session_id") { $0.sessionID },
        .int8("owner") { $0.owner },
        .int8("claimed_at_ms") { $0.at.millisecondsSinceEpoch },
    ]

    /// For each session, inserts a row with the driver as the owner. Skips sessions of drivers whom this transaction
    /// has not updated. The rows are written in the order of the sessions' ids, which prevents deadlocks.
    ///
    /// If another transaction has claimed one of the sessions since the reads, the statement fails, and the whole batch
    /// must be run again.
    static let add = PostgresStatement(
        "sessions_claimed",
        """
        INSERT INTO session_owner (lane, session_id, owner_lane, owner, claimed_at_ms)
        SELECT given.lane, given.session_id, driver.lane, driver.id, given.claimed_at_ms
        FROM \(ArrayColumn.unnest(columns, from: 4, as: "given")), \(RowByKey.movedDriver("given.owner"))
        ORDER BY given.session_id COLLATE "C"
        """)

    static func addQuery(_ claims: [SessionClaim], batch: Int64) -> PostgresQuery {
        PostgresQuery(add, LaneParameters.any + [.int8(batch)] + columns.map { $0.values(claims) })
    }

    private static let addOne = PostgresStatement(
        "session_claimed",
        """
        INSERT INTO session_owner (lane, session_id, owner_lane, owner, claimed_at_ms) VALUES ($1, $2, $3, $4, $5)
        """)

    /// Like `add`, for Citus: one statement for each session, in the same order.
    static func addOneQueries(_ claims: [SessionClaim]) -> [PostgresQuery] {
        claims.sorted { TextKey($0.sessionID) < TextKey($1.sessionID) }.map { claim in
            PostgresQuery(
                addOne,
                [
                    .int2(Lane.of(claim.sessionID)), .text(claim.sessionID), .int2(Lane.of(driver: claim.owner)),
                    .int8(claim.owner), .int8(claim.at.millisecondsSinceEpoch),
                ])
        }
    }
}

enum SessionStatements {
    /// Parameters: `LaneParameters`, session ids.
    static let owners = PostgresStatement(
        "session_owners",
        """
        SELECT session_owner.session_id, session_owner.owner FROM unnest($3::text[]) asked(session_id),
            \(RowByKey.askedOwner)
        """)

    /// Parameters: `LaneParameters`, the `driver_id` of drivers, session ids.
    static let sessions = PostgresStatement(
        "sessions",
        """
        SELECT driver.driver_id, session.session_id, session.opened_at_ms, session.registered_at_ms,
            session.registered_charger, session.registered_merchant
        FROM unnest($3::text[], $4::text[]) asked(driver_id, session_id), \(RowByKey.askedDriver),
            \(RowByKey.askedSession)
        """)

    /// Of the driver's `recentMax` sessions with the latest opening times, at most `unusedMax` may be unused. An unused
    /// session is registered, has no event, and occurs neither in the driver's journey nor in the journey at the
    /// driver's floor.
    private static let unusedMax = 100
    private static let recentMax = 200

    /// Deletes the unused sessions among the driver's last `recentMax` sessions, except the newest `unusedMax` of them.
    /// Without this limit, a driver who keeps registering sessions could fill the table.
    ///
    /// Parameters: `driver.id`, the batch.
    static let forgetUnused = PostgresStatement(
        "sessions_forgotten",
        """
        WITH unused AS (\(unused("$1", "$2") { _ in "" })),
        gone AS (
            DELETE FROM session USING unused
            WHERE session.driver = $1::int8 AND session.session_id = unused.session_id RETURNING session.session_id)
        DELETE FROM session_owner USING gone
        WHERE session_owner.session_id = gone.session_id AND session_owner.owner = $1::int8
        """)

    /// Like `forgetUnused`, for Citus, where the rows of session_owner lie in other shards. Deletes only rows of
    /// `session`, and returns their session_id and driver. The caller must delete the rows of session_owner.
    ///
    /// Parameters: `LaneParameters`, `driver.id`, the batch.
    static let forgetUnusedOfShard = PostgresStatement(
        "sessions_forgotten_of_shard",
        """
        WITH unused AS (\(unused("$3", "$4") { " AND \(LaneParameters.condition($0))" })),
        gone AS (
            DELETE FROM session USING unused
            WHERE session.driver = $3::int8 AND \(LaneParameters.condition("session"))
                AND session.session_id = unused.session_id RETURNING session.session_id, session.driver)
        SELECT session_id, driver FROM gone
        """)

    /// Returns SQL that selects the sessions to delete. The newest sessions are those with the highest numbers, and not
    /// those with the latest opening times.
    ///
    /// If the server's clock was once ahead, old sessions have later opening times than new ones. By opening time, a
    /// new session would then count as the oldest, and its own registration would delete it.
    ///
    /// - Parameter lanes: returns a condition on the table with the given name. It begins with AND, or is empty.
    private static func unused(_ driver: String, _ batch: String, _ lanes: (String) -> String) -> String {
        """
        SELECT recent.session_id FROM (
            SELECT session.* FROM session JOIN driver ON driver.id = session.driver\(lanes("driver"))
            WHERE session.driver = \(driver)::int8\(lanes("session")) AND driver.batch = \(batch)::int8
            ORDER BY opened_at_ms DESC, number DESC LIMIT \(recentMax)) recent
        WHERE recent.registered_at_ms IS NOT NULL
            AND NOT EXISTS (SELECT 1 FROM event
                WHERE event.driver = \(driver)::int8\(lanes("event")) AND event.session_id = recent.session_id)
            AND NOT EXISTS (SELECT 1 FROM driver WHERE driver.id = \(driver)::int8\(lanes("driver"))
                AND recent.session_id IN (driver.session_id, driver.previous_session_id))
            AND NOT EXISTS (SELECT 1 FROM journey_base WHERE journey_base.driver = \(driver)::int8\(lanes("journey_base"))
                AND recent.session_id IN (journey_base.session_id, journey_base.previous_session_id))
        ORDER BY recent.number DESC OFFSET \(unusedMax)
        """
    }

    private static let disown = PostgresStatement(
        "session_disowned", "DELETE FROM session_owner WHERE lane = $1 AND session_id = $2 AND owner = $3")

    static func disownQuery(session: String, owner: Int64) -> PostgresQuery {
        PostgresQuery(disown, [.int2(Lane.of(session)), .text(session), .int8(owner)])
    }
}

enum SettingsStatements {
    /// Parameters: version, grace period, hard timeout, JSON, time of first use.
    static let add = PostgresStatement(
        "settings_added",
        """
        INSERT INTO settings_version (version, grace_period_seconds, hard_timeout_seconds, settings, first_used_at_ms)
        VALUES ($1, $2, $3, $4, $5) ON CONFLICT DO NOTHING
        """)

    static func addQuery(_ settings: VersionedSettings, at now: Moment) -> PostgresQuery {
        PostgresQuery(
            add,
            [
                .text(settings.version), .int8(Int64(settings.settings.gracePeriodSeconds)),
                .int8(Int64(settings.settings.hardTimeoutSeconds)),
                .text(String(decoding: settings.settings.wireJSON, as: UTF8.self)), .int8(now.millisecondsSinceEpoch),
            ])
    }
}
