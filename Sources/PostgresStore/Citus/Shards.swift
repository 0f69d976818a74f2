// Finds the shard in which a row of the event tables lies. On Citus, all rows of a lane (Lane.swift) lie in the same
// shard. A statement runs on a single server only if all its rows lie in one shard.
//
// Each statement of a batch is therefore sent once for each shard. On a single PostgreSQL server, a statement may
// contain rows of any lanes.

import JourneyModel
import Postgres

struct Shards: Hashable, Sendable {
    /// The shard of each lane; nil on a single PostgreSQL server.
    private let ofLane: [Int64]?

    /// A single PostgreSQL server, without Citus.
    static let none = Shards(ofLane: nil)

    init(ofLane: [Int64]?) {
        self.ofLane = ofLane
    }

    /// Whether the rows are distributed over several shards.
    var areDistributed: Bool { ofLane != nil }

    /// Returns the first two parameters (`LaneParameters`) of a statement over rows of one lane.
    func parameters(ofLane lane: Int16) -> [PostgresValue] {
        areDistributed ? [.int2s([lane]), .bool(false)] : LaneParameters.any
    }

    /// Like the method above, for rows of one driver.
    func parameters(of driver: DriverID) -> [PostgresValue] { parameters(ofLane: Lane.of(driver.rawValue)) }
    func parameters(ofDriver id: Int64) -> [PostgresValue] { parameters(ofLane: Lane.of(driver: id)) }

    /// Groups the rows by shard, so that each statement runs on a single server. Returns each group with the first two
    /// parameters (`LaneParameters`) of its statement.
    ///
    /// On a single PostgreSQL server, there is one group. On Citus, all instances use the same order of groups, so they
    /// lock rows in the same order.
    func groups<Row>(
        _ rows: [Row], lane: (Row) -> Int16
    ) -> [(parameters: [PostgresValue], rows: [Row])] {
        if rows.isEmpty { return [] }
        guard let ofLane else { return [(LaneParameters.any, rows)] }
        let byShard = Dictionary(grouping: rows) { ofLane[Int(lane($0)) % ofLane.count] }
        return byShard.sorted { $0.key < $1.key }.map { _, rows in
            ([.int2s(Set(rows.map(lane)).sorted()), .bool(false)], rows)
        }
    }

    /// Returns the queries that run the statement over all the rows: one query for each group (`groups`).
    ///
    /// - Parameter values: returns the parameters of one query after `LaneParameters`, from the rows of the query's
    ///   group.
    func queries<Row>(
        _ statement: PostgresStatement, _ rows: [Row], lane: (Row) -> Int16, _ values: ([Row]) -> [PostgresValue]
    ) -> [PostgresQuery] {
        groups(rows, lane: lane).map { PostgresQuery(statement, $0.parameters + values($0.rows)) }
    }

    /// Like the method above. The rows are drivers, each given by its `driver_id`.
    func queries(
        _ statement: PostgresStatement, drivers: [String], _ values: ([String]) -> [PostgresValue]
    ) -> [PostgresQuery] {
        queries(statement, drivers, lane: Lane.of, values)
    }
}

/// Collects the queries of one round trip from several parts.
struct RoundTrip {
    private(set) var queries: [PostgresQuery] = []

    /// Adds queries. Returns the indexes of their results.
    @discardableResult
    mutating func add(_ more: [PostgresQuery]) -> Range<Int> {
        let first = queries.count
        queries += more
        return first..<queries.count
    }
}

extension [PostgresResult] {
    /// Returns the rows of several results.
    func rows(_ indexes: Range<Int>) -> [PostgresRow] {
        self[indexes].flatMap { result in (0..<result.rowCount).map { result[$0] } }
    }

    var allRows: [PostgresRow] { rows(indices) }
}
