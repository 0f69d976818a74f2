// The reads of a batch. One round trip reads the owners of sessions, the drivers, the stored keys and the sessions.
// Further round trips read what the fold finds missing.

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
    /// A driver's events from a time on.
    struct Tail: Sendable {
        var from: Moment
        /// The last millisecond that was read. `tail` contains all events from `from` to the end of this millisecond.
        /// Nil if it contains all events from `from` on.
        var through: Moment?
        var tail: JourneyTail
    }

    var drivers: [TextKey: StoredDriver] = [:]
    var keys: [DriverText: StoredKey] = [:]
    /// The `driver.id` of the sessions' owners, by session id.
    var owners: [TextKey: Int64] = [:]
    /// The `driver_id` for the `driver.id` of a session's owner. The value nil means that the owner's row was looked
    /// for, but is not visible yet.
    var ownerIDs: [Int64: TextKey?] = [:]
    /// The rows of sessions. The value nil means that the driver has no such session.
    var sessions: [DriverText: SessionRow?] = [:]
    var tails: [TextKey: Tail] = [:]
    /// The refold whose parts this transaction has written; nil if there is none. The batch then has no other driver.
    var refolded: RefoldInParts?
    /// When a driver without a row was deleted. The value nil means that the driver was never deleted: there is no
    /// tombstone.
    var erasedAt: [TextKey: Moment?] = [:]
    /// The `driver.id` of each driver in `tails` whose deletion is unfinished. The driver's events may contain old and
    /// new ids, so BatchFold does not fold them.
    var erasing: Set<Int64> = []
    /// The position before the first event of the transaction, on Citus. Nil on a single PostgreSQL server, where the
    /// INSERT of the events computes positions.
    var position: Int64?
    /// Whether the coordinator of Citus was restarted since the last run of `EventPosition.raiseForServer`. If so,
    /// `EventPosition.raiseForServer` must run again.
    var isOfOtherServer = false
    /// Whether a locked driver's last event has a higher position than new events of this transaction would get. The
    /// cause: while this transaction waited for the driver's row, a transaction with a higher number stored events.
    var isBehind = false

    init() {}

    /// Creates the reads for the parts of one driver's events (`readPart`).
    init(of driver: StoredDriver) { drivers[TextKey(driver.driver.rawValue)] = driver }

    /// Reads the rows for the groups. If `isLocked` is true, first locks the drivers. The reads begin a transaction if
    /// `isLocked` is true, and always on Citus. The transaction's number is read after the drivers.
    static func read(
        _ groups: [DriverGroup], isLocked: Bool, _ shards: Shards, on connection: PostgresConnection,
        until deadline: Deadline
    ) async throws(PostgresError) -> BatchReads {
        var asked = Asked()
        for group in groups { asked.add(group) }
        var trip = RoundTrip()
        if isLocked || shards.areDistributed { trip.add([.init(.begin)]) }
        if groups.contains(where: \.isLong) {
            trip.add([PostgresQuery(.longLimits, [.text(String(BatchRun.lockedSeconds * 1_000))])])
        }
        if shards.areDistributed { trip.add([PostgresQuery(EventPosition.shareOffset)]) }
        let ofDrivers = { (statement: PostgresStatement) in
            shards.queries(statement, drivers: asked.drivers) { [.texts($0)] }
        }
        if isLocked { trip.add(ofDrivers(DriverStatements.lock)) }
        // The owners of sessions must be read before the drivers. A transaction that adds a driver also adds the owners
        // of the driver's sessions. So if an owner is read here, the next statement sees the owner's row in `driver`.
        //
        // Citus does not guarantee this order, because `session_owner` and `driver` may lie on different servers
        // (`BatchNeed.owner`).
        let owners = trip.add(
            shards.queries(SessionStatements.owners, asked.sessions.map(\.text), lane: Lane.of) { [.texts($0)] })
        let drivers = trip.add(ofDrivers(DriverStatements.read))
        let last = trip.add(isLocked ? ofDrivers(EventStatements.lastPositions) : [])
        let begun = trip.add(isLocked || shards.areDistributed ? [PostgresQuery(EventPosition.begin)] : [])
        let keys = trip.add(
            shards.queries(EventStatements.keys, asked.keys, lane: \.lane) {
                [.texts($0.map(\.driver)), .texts($0.map(\.text))]
            })
        let sessions = trip.add(Self.sessionQueries(asked.sessions, shards))
        let results = try await connection.run(trip.queries, until: deadline)
        var reads = BatchReads()
        if let row = results.rows(begun).first {
            let position = try row.int8(0)
            for row in results.rows(last) where try row.int8(0) > position { reads.isBehind = true }
            if shards.areDistributed {
                reads.position = position
                reads.isOfOtherServer = try !row.bool(1)
            }
        }
        for row in results.rows(drivers) {
            let driver = try StoredDriver(row)
            reads.drivers[TextKey(driver.driver.rawValue)] = driver
        }
        for row in results.rows(keys) {
            reads.keys[DriverText(try row.text(0), try row.text(1))] = try StoredKey(row, at: 2)
        }
        for row in results.rows(owners) { reads.owners[TextKey(try row.text(0))] = try row.int8(1) }
        try reads.take(results.rows(sessions), asked: asked.sessions)
        return reads
    }

    private static func sessionQueries(_ asked: [AskedText], _ shards: Shards) -> [PostgresQuery] {
        shards.queries(SessionStatements.sessions, asked, lane: \.lane) {
            [.texts($0.map(\.driver)), .texts($0.map(\.text))]
        }
    }

    /// Reads what the fold found missing (`BatchNeed`).
    mutating func readMore(
        _ needs: [(driver: DriverID, need: BatchNeed)], _ shards: Shards, on connection: PostgresConnection,
        until deadline: Deadline
    ) async throws(PostgresError) {
        var asked: [AskedText] = []
        var rows: [(key: TextKey, row: StoredDriver, tail: BatchNeed.Tail)] = []
        var digests: [[UInt8]?] = []
        var unnamed: [Int64] = []
        for (driver, need) in needs {
            let key = TextKey(driver.rawValue)
            if let owner = need.owner {
                unnamed.append(owner)
                ownerIDs.updateValue(nil, forKey: owner)
            }
            if let digest = need.tombstone {
                digests.append(digest)
                erasedAt.updateValue(nil, forKey: key)
            }
            guard let row = drivers[key] else { continue }
            if let tail = need.tail {
                rows.append((key, row, tail))
            }
            if let sessionID = need.sessionID { asked.append(AskedText(driver.rawValue, sessionID)) }
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
        let query = {
            (statement: PostgresStatement, values: (StoredDriver, BatchNeed.Tail) -> [Int64]) in
            shards.queries(statement, rows, lane: \.row.lane) { part in
                let columns = part.map { values($0.row, $0.tail) }
                return (columns.first ?? []).indices.map { index in .int8s(columns.map { $0[index] }) }
            }
        }
        var trip = RoundTrip()
        let named = trip.add(
            shards.queries(DriverStatements.ids, unnamed, lane: Lane.of(driver:)) { [.int8s($0)] })
        // The unfinished deletions are read before the events. A deletion that ended before this read has rewritten all
        // events. A deletion that begins later raises the driver's version, so the batch writes nothing for the driver.
        let erased = trip.add(query(DriverStatements.erasing) { row, _ in [row.id] })
        let tails = trip.add(
            query(EventStatements.tails) { row, tail in
                [row.id, tail.from.millisecondsSinceEpoch, tail.eventsMax ?? .max]
            })
        let starts = trip.add(
            query(EventStatements.starts) { row, tail in
                [row.id, tail.from.millisecondsSinceEpoch, row.floor?.millisecondsSinceEpoch ?? .min]
            })
        let bases = trip.add(query(EventStatements.bases) { row, _ in [row.id] })
        let sessions = trip.add(Self.sessionQueries(asked, shards))
        if trip.queries.isEmpty { return }
        let results = try await connection.run(trip.queries, until: deadline)
        for row in results.rows(named) { ownerIDs.updateValue(TextKey(try row.text(1)), forKey: try row.int8(0)) }
        for row in results.rows(erased) { erasing.insert(try row.int8(0)) }
        var events: [Int64: [FoldedEvent]] = [:]
        var lasts: [Int64: Moment] = [:]
        for row in results.rows(tails) {
            events[try row.int8(0), default: []].append(try FoldedEvent(row))
            lasts[try row.int8(0)] = try row.optionalMoment(EventStatements.foldedColumnCount)
        }
        var journeys: [Int64: Journey] = [:]
        for row in results.rows(bases) { journeys[try row.int8(0)] = try Journey(row, at: 1) }
        for row in results.rows(starts) { journeys[try row.int8(0)] = try Journey(row, at: 1) }
        for (key, row, asked) in rows {
            let sorted = (events[row.id] ?? []).sorted(by: FoldedEvent.isStored(_:before:))
            let through = lasts[row.id]
            let tail = JourneyTail(
                start: journeys[row.id] ?? Journey(), events: sorted, end: through == nil ? nil : row.journey)
            self.tails[key] = Tail(from: asked.from, through: through, tail: tail)
        }
        try take(results.rows(sessions), asked: asked)
    }

    /// Reads the part of a driver's events that begins at `from`. Returns nil if the driver's deletion is not complete.
    /// The driver's row must be in `drivers`, and `from` must not be below the driver's floor.
    mutating func readPart(
        of driver: DriverID, from: Moment, eventsMax: Int64, _ shards: Shards, on connection: PostgresConnection,
        until deadline: Deadline
    ) async throws(PostgresError) -> Tail? {
        let key = TextKey(driver.rawValue)
        let tail = BatchNeed.Tail(from: from, eventsMax: eventsMax)
        // Removes the part before, so that only one part is in memory.
        tails[key] = nil
        try await readMore([(driver, BatchNeed(tail: tail))], shards, on: connection, until: deadline)
        guard let row = drivers[key], !erasing.contains(row.id) else { return nil }
        return tails[key]
    }

    private mutating func take(_ rows: [PostgresRow], asked: [AskedText]) throws(PostgresError) {
        for text in asked { sessions.updateValue(nil, forKey: DriverText(text.driver, text.text)) }
        for row in rows {
            let session = SessionRow(
                driver: 0, sessionID: try row.text(1), openedAt: try row.moment(2),
                registeredAt: try row.optionalMoment(3), registeredCharger: try row.optionalText(4),
                registeredMerchant: try row.optionalText(5))
            sessions.updateValue(session, forKey: DriverText(try row.text(0), session.sessionID))
        }
    }

    /// A text of a driver, as the parameter of a statement.
    private struct AskedText {
        var driver: String
        var text: String

        init(_ driver: String, _ text: String) {
            (self.driver, self.text) = (driver, text)
        }

        /// The lane of the driver.
        var lane: Int16 { Lane.of(driver) }
    }

    /// The ids and keys in the groups of a batch, without duplicates.
    private struct Asked {
        var drivers: [String] = []
        var keys: [AskedText] = []
        var sessions: [AskedText] = []

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
            keys += ownKeys.map { AskedText(driver, $0.text) }
            sessions += ownSessions.map { AskedText(driver, $0.text) }
        }
    }
}

/// What must be read before a group can be folded.
struct BatchNeed: Sendable {
    struct Tail: Sendable {
        var from: Moment
        /// The maximum number of events to read; nil for all. Events in the same millisecond as the last event are
        /// always read too.
        var eventsMax: Int64?
    }

    /// The driver's events from a time on.
    var tail: Tail?
    /// The row of this session.
    var sessionID: String?
    /// The keyed hash of the driver's id, for a driver without a row. Nil if the tombstone need not be read.
    var tombstone: [UInt8]?
    /// The `driver.id` of a session's owner, whose `driver_id` must be read. The group's driver has no row, but may be
    /// this owner: on Citus, the row of `session_owner` may be visible before the row of `driver`.
    var owner: Int64?
    /// A refold whose parts must be read and written before the fold. Set only for a group in a batch of its own.
    var refold: RefoldInParts?

    var isNothing: Bool {
        tail == nil && sessionID == nil && tombstone == nil && owner == nil && refold == nil
    }
}
