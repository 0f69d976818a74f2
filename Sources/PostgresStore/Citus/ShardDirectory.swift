// Finds out whether Citus distributes the tables and which shard has which lane, and keeps the result in memory.

import Postgres
import Sockets
import Synchronization

final class ShardDirectory: Sendable {
    private let known = Mutex<Shards?>(nil)

    func shards(on connection: PostgresConnection, until deadline: Deadline) async throws(PostgresError) -> Shards {
        if let shards = known.withLock({ $0 }) { return shards }
        let shards = try await Self.read(on: connection, until: deadline)
        known.withLock { $0 = shards }
        return shards
    }

    /// Nil until the shards are read from the server, and after `forget`.
    var shardsIfKnown: Shards? { known.withLock { $0 } }

    /// Makes the next call of `shards` read them again, because a shard may have been split.
    func forget() { known.withLock { $0 = nil } }

    private static func read(
        on connection: PostgresConnection, until deadline: Deadline
    ) async throws(PostgresError) -> Shards {
        let found = try await connection.run([PostgresQuery(isCitus)], until: deadline)
        guard try found[0][0].bool(0) else { return .none }
        let lanes = try await connection.run([PostgresQuery(shardOfLane)], until: deadline)
        if lanes[0].rowCount == 0 { return .none }
        var shards: [Int64] = []
        for row in lanes[0].rows { shards.append(try row.int8(0)) }
        return Shards(ofLane: shards)
    }

    private static let isCitus = PostgresStatement(
        "is_citus", "SELECT to_regclass('pg_catalog.pg_dist_partition') IS NOT NULL")

    /// Returns the shard of each lane, in the order of the lanes. If the Citus extension is installed but does not
    /// distribute the tables, returns no row.
    private static let shardOfLane = PostgresStatement(
        "shard_of_lane",
        """
        SELECT get_shard_id_for_distribution_column('driver', lanes.lane::int2)
        FROM generate_series(0, \(Lane.count - 1)) lanes(lane)
        WHERE EXISTS (SELECT 1 FROM pg_dist_partition WHERE logicalrelid = 'driver'::regclass) ORDER BY lanes.lane
        """)
}
