// What a batch reads before it folds: one round trip for drivers, known keys and sessions, and another for the drivers
// with late events.

import Engine
import JourneyModel
import Postgres
import Sockets

/// A text of one driver: an idempotency key or a session id.
struct DriverText: Hashable, Sendable {
    var driver: TextKey
    var text: TextKey

    init(_ driver: String, _ text: String) {
        (self.driver, self.text) = (TextKey(driver), TextKey(text))
    }
}

struct BatchReads: Sendable {
    /// The end of a driver's journey from a time on.
    struct Tail: Sendable {
        var from: Moment
        var tail: JourneyTail
    }

    var drivers: [TextKey: StoredDriver] = [:]
    var keys: [DriverText: StoredKey] = [:]
    /// The rows of the drivers to whom sessions belong.
    var owners: [TextKey: Int64] = [:]
    /// Sessions of drivers, nil for a session that was asked for and is not the driver's.
    var sessions: [DriverText: SessionRow?] = [:]
    var tails: [TextKey: Tail] = [:]
    /// When drivers without a row were deleted; nil for a driver who never was.
    var erasedAt: [TextKey: Moment?] = [:]

    /// Reads what the groups name. With `isLocked`, begins a transaction and locks the drivers first.
    static func read(
        _ groups: [DriverGroup], isLocked: Bool, on connection: PostgresConnection, until deadline: Deadline
    ) async throws(PostgresError) -> BatchReads {
        var names = Names()
        for group in groups { names.add(group) }
        var queries: [PostgresQuery] = []
        if isLocked { queries = [.init(.begin), query(DriverStatements.lock, .texts(names.drivers))] }
        let first = queries.count
        queries.append(query(DriverStatements.read, .texts(names.drivers)))
        if !names.keys.isEmpty {
            queries.append(query(EventReads.keys, .texts(names.keyDrivers), .texts(names.keys)))
        }
        if !names.sessions.isEmpty {
            queries.append(query(SessionReads.owners, .texts(names.sessions)))
            queries.append(query(SessionReads.sessions, .texts(names.sessionDrivers), .texts(names.sessions)))
        }
        var results = try await connection.run(queries, until: deadline)[first...]
        var reads = BatchReads()
        for row in results.removeFirst().rows {
            let driver = try StoredDriver(row)
            reads.drivers[TextKey(driver.driver.rawValue)] = driver
        }
        if !names.keys.isEmpty {
            for row in results.removeFirst().rows {
                reads.keys[DriverText(try row.text(0), try row.text(1))] = try StoredKey(row, at: 2)
            }
        }
        if !names.sessions.isEmpty {
            for row in results.removeFirst().rows { reads.owners[TextKey(try row.text(0))] = try row.int8(1) }
            try reads.take(results.removeFirst(), asked: zip(names.sessionDrivers, names.sessions))
        }
        return reads
    }

    /// Reads what the fold found missing: the ends of journeys with late events, and the sessions in progress.
    mutating func readMore(
        _ needs: [(driver: DriverID, need: BatchNeed)], on connection: PostgresConnection, until deadline: Deadline
    ) async throws(PostgresError) {
        var ids: [Int64?] = []
        var (times, floors): ([Int64?], [Int64?]) = ([], [])
        var (sessionDrivers, sessions): ([String?], [String?]) = ([], [])
        var rows: [(key: TextKey, row: StoredDriver, from: Moment)] = []
        var digests: [[UInt8]?] = []
        for (driver, need) in needs {
            let key = TextKey(driver.rawValue)
            if let digest = need.tombstone {
                digests.append(digest)
                erasedAt.updateValue(nil, forKey: key)
            }
            guard let row = drivers[key] else { continue }
            if let from = need.tailFrom {
                rows.append((key, row, from))
                ids.append(row.id)
                times.append(from.millisecondsSinceEpoch)
                floors.append(row.floor?.millisecondsSinceEpoch ?? .min)
            }
            if let sessionID = need.sessionID {
                sessionDrivers.append(driver.rawValue)
                sessions.append(sessionID)
            }
        }
        if !digests.isEmpty {
            let found = try await connection.run(
                [PostgresQuery(ErasedDrivers.find, [.byteas(digests)])], until: deadline)
            var times: [[UInt8]: Moment] = [:]
            for row in found[0].rows { times[try row.bytea(0)] = try row.moment(1) }
            for (driver, need) in needs {
                guard let digest = need.tombstone else { continue }
                erasedAt.updateValue(times[digest], forKey: TextKey(driver.rawValue))
            }
        }
        if rows.isEmpty && sessions.isEmpty { return }
        let results = try await connection.run(
            [
                Self.query(EventReads.tails, .int8s(ids), .int8s(times)),
                Self.query(EventReads.starts, .int8s(ids), .int8s(times), .int8s(floors)),
                Self.query(EventReads.bases, .int8s(ids)),
                Self.query(SessionReads.sessions, .texts(sessionDrivers), .texts(sessions)),
            ], until: deadline)
        var events: [Int64: [FoldedEvent]] = [:]
        for row in results[0].rows { events[try row.int8(0), default: []].append(try FoldedEvent(row)) }
        var starts: [Int64: Journey] = [:]
        for row in results[2].rows { starts[try row.int8(0)] = try Journey(row, at: 1) }
        for row in results[1].rows { starts[try row.int8(0)] = try Journey(row, at: 1) }
        for (key, row, from) in rows {
            let sorted = (events[row.id] ?? []).sorted(by: FoldedEvent.isStored(_:before:))
            tails[key] = Tail(from: from, tail: JourneyTail(start: starts[row.id] ?? Journey(), events: sorted))
        }
        try take(results[3], asked: zip(sessionDrivers, sessions))
    }

    private mutating func take(
        _ result: PostgresResult, asked: some Sequence<(String?, String?)>
    ) throws(PostgresError) {
        for case (let driver?, let sessionID?) in asked {
            sessions.updateValue(nil, forKey: DriverText(driver, sessionID))
        }
        for row in result.rows {
            let session = SessionRow(
                driver: 0, sessionID: try row.text(1), openedAt: try row.moment(2),
                registeredAt: try row.optionalMoment(3), registeredCharger: try row.optionalText(4),
                registeredMerchant: try row.optionalText(5))
            sessions.updateValue(session, forKey: DriverText(try row.text(0), session.sessionID))
        }
    }

    private static func query(_ statement: PostgresStatement, _ arrays: PostgresValue...) -> PostgresQuery {
        PostgresQuery(statement, LaneParameters.any + arrays)
    }

    /// The texts that the groups of a batch name, each once.
    private struct Names {
        var drivers: [String?] = []
        var (keyDrivers, keys): ([String?], [String?]) = ([], [])
        var (sessionDrivers, sessions): ([String?], [String?]) = ([], [])

        mutating func add(_ group: DriverGroup) {
            let driver = group.driver.rawValue
            drivers.append(driver)
            var (ownKeys, ownSessions): (Set<TextKey>, Set<TextKey>) = ([], [])
            for work in group.works {
                var sessionID: String?
                switch work.kind {
                case .append(let append, _, _):
                    sessionID = append.request.submission.sessionID
                    ownKeys.insert(TextKey(append.request.submission.idempotencyKey))
                case .register(let registration, _): sessionID = registration.sessionID
                case .expire, .refold: break
                }
                if let sessionID { ownSessions.insert(TextKey(sessionID)) }
            }
            for key in ownKeys {
                keyDrivers.append(driver)
                keys.append(key.text)
            }
            for session in ownSessions {
                sessionDrivers.append(driver)
                sessions.append(session.text)
            }
        }
    }
}

/// What a group cannot be folded without.
struct BatchNeed: Sendable {
    /// All of the driver's events from this time on.
    var tailFrom: Moment?
    /// The row of this session.
    var sessionID: String?
    /// Whether the driver, who has no row, was deleted. The value is the keyed hash of the driver's id.
    var tombstone: [UInt8]?

    var isNothing: Bool { tailFrom == nil && sessionID == nil && tombstone == nil }
}
