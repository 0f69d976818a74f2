// Finds the ids of a driver's events in the order of time, for code that uses GRDB. The code then selects the rows by
// id, because no index leads to a driver's events (EventChain.swift).

import GRDB
import GRDBSQLite

struct DriverEvents {
    private enum Source {
        case chain(ChainWalk)
        /// A database file of an old release has an index by driver and time instead of chains.
        case rows(RowCursor)
    }

    private var source: Source
    /// For `.rows`: an event that `nextMillisecond` has read but not returned yet.
    private var kept: (id: Int64, time: Int64)?

    /// - Parameter times: the wanted range of `corrected_at_ms`.
    init(
        of driver: Int64, _ direction: ChainWalk.Direction,
        times: ClosedRange<Int64> = Int64.min...Int64.max, _ db: Database
    ) throws {
        guard try Self.hasChains(db) else {
            let order = direction == .forward ? "corrected_at_ms, id" : "corrected_at_ms DESC, id DESC"
            source = .rows(
                try Row.fetchCursor(
                    db,
                    sql: """
                        SELECT id, corrected_at_ms FROM event
                        WHERE driver = ? AND corrected_at_ms BETWEEN ? AND ? ORDER BY \(order)
                        """, arguments: [driver, times.lowerBound, times.upperBound]))
            return
        }
        let end = try Self.end(of: driver, db)
        source = .chain(try ChainWalk(try EventChain(db), from: end.last, direction, times: times))
    }

    /// False for a database file of an old release, which has no chains.
    static func hasChains(_ db: Database) throws -> Bool {
        try db.columns(in: "event").contains { $0.name == "previous" }
    }

    /// Reads the column `driver.chain`.
    static func end(of driver: Int64, _ db: Database) throws -> ChainEnd {
        let find = try db.cachedStatement(sql: "SELECT coalesce(chain, x'') FROM driver WHERE id = ?")
        guard let row = try Row.fetchOne(find, arguments: [driver]) else { return ChainEnd() }
        return try row.withUnsafeData(atIndex: 0) { data in try ChainEnd(bytes: data.map { [UInt8]($0) } ?? []) }
    }

    /// Returns the ids of the next events, like `ChainWalk.next(_:)`.
    mutating func next(_ count: Int) throws -> [Int64] {
        if case .chain(var walk) = source {
            defer { source = .chain(walk) }
            return try walk.next(count)
        }
        var ids: [Int64] = []
        while ids.count < count {
            let millisecond = try nextMillisecond()
            if millisecond.isEmpty { break }
            ids += millisecond
        }
        return ids
    }

    private mutating func nextMillisecond() throws -> [Int64] {
        guard case .rows(let cursor) = source else { return [] }
        let next = { try cursor.next().map { (id: $0[0] as Int64, time: $0[1] as Int64) } }
        guard let first = try kept ?? next() else { return [] }
        var ids = [first.id]
        kept = nil
        while let row = try next() {
            guard row.time == first.time else {
                kept = row
                break
            }
            ids.append(row.id)
        }
        return ids
    }

    /// Returns the ids of all events of a driver.
    static func all(of driver: Int64, _ db: Database) throws -> [Int64] {
        var events = try DriverEvents(of: driver, .forward, db)
        return try events.next(.max)
    }

    // MARK: Statements

    /// Returns the beginning of a FROM clause that reads the events whose ids are in the SQL parameter `parameter`.
    /// Callers bind the result of `list` to it.
    static func listedSQL(_ parameter: String = "?") -> String {
        "json_each(\(parameter)) AS listed CROSS JOIN event ON event.id = listed.value"
    }

    /// Returns the ids as a JSON array.
    static func list(_ ids: [Int64]) -> String {
        "[\(ids.map(String.init).joined(separator: ","))]"
    }
}

/// The rows that a query returns for a driver's events, read in batches.
struct DriverEventRows {
    private static let batch = 256

    private var events: DriverEvents
    private let statement: Statement
    private var rows: ArraySlice<Row> = []

    /// - Parameter sql: a query whose only parameter is a list of ids (`listedSQL`). It must sort by
    ///   `FoldOrder.ascending` or `.descending`, according to the direction of `events`.
    init(_ events: DriverEvents, sql: String, _ db: Database) throws {
        self.events = events
        statement = try db.cachedStatement(sql: sql)
    }

    mutating func next() throws -> Row? {
        if rows.isEmpty {
            let ids = try events.next(Self.batch)
            if ids.isEmpty { return nil }
            rows = try Row.fetchAll(statement, arguments: [DriverEvents.list(ids)])[...]
        }
        return rows.popFirst()
    }
}

extension EventChain {
    convenience init(_ db: Database) throws {
        try self.init(on: db.openConnection)
    }
}
