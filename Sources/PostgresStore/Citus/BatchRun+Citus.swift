// Writes a batch on Citus. The batch first updates the drivers. It waits for the results, and then sends the other rows
// of the updated drivers.
//
// On a single PostgreSQL server, the inserts join with the updated drivers, so the batch need not wait for the results
// of the update. On Citus, this join is not possible, because a session's row in `session_owner` may lie in another
// shard than the driver's row.

import Engine
import JourneyModel
import Postgres
import Sockets

extension BatchRun {
    /// Rolls back the transaction of the reads, and raises `xact_offset`. This is necessary after each start of the
    /// coordinator. If several instances do it at the same time, only one of them raises the offset.
    func raisePositions(on connection: PostgresConnection, until deadline: Deadline) async throws(PostgresError) {
        _ = try await connection.run([.init(.rollback)], until: deadline)
        let raise = EventPosition.raiseForServer.map { PostgresQuery($0) }
        _ = try await connection.run([.init(.begin)] + raise + [.init(.commit)], until: deadline)
    }

    /// Writes the batch in the transaction that the reads have begun, and commits. Returns the `driver.id` of the
    /// updated drivers.
    ///
    /// If no driver was updated, or if a new driver was deleted since the reads, returns an empty set without COMMIT.
    /// The pool then rolls back.
    func write(
        _ writes: BatchWrites, after position: Int64, on connection: PostgresConnection, until deadline: Deadline
    ) async throws(PostgresError) -> Set<Int64> {
        let results = try await connection.run(writes.moving, until: deadline)
        if !results.rows(writes.erased).isEmpty { return [] }
        let moved = try Self.moved(results, writes)
        let groups = writes.changed.filter { group in group.moved.map { moved.contains($0.row.id) } ?? false }
        if groups.isEmpty { return [] }
        let (batch, shards) = (writes.batch, writes.shards)
        var trip = RoundTrip()
        trip.add(SessionClaim.addOneQueries(groups.flatMap(\.claims)))
        trip.add(
            EventOfDriver.addPlacedQueries(
                BatchWrites.events(of: groups, \.added), batch: batch, after: position, shards))
        trip.add(BatchWrites.updates(of: groups, batch: batch, shards))
        trip.add(groups.flatMap(\.sessions).map { $0.writeOneQuery })
        let forgotten = trip.add(
            groups.filter(\.hasRegistered).compactMap(\.moved).map { moved in
                PostgresQuery(
                    SessionStatements.forgetUnusedOfShard,
                    shards.parameters(ofLane: moved.row.lane) + [.int8(moved.row.id), .int8(batch)])
            })
        if forgotten.isEmpty {
            trip.add([.init(.commit)])
            _ = try await connection.run(trip.queries, until: deadline)
            return moved
        }
        let stored = try await connection.run(trip.queries, until: deadline)
        var last = RoundTrip()
        for row in stored.rows(forgotten) {
            last.add([SessionStatements.disownQuery(session: try row.text(0), owner: try row.int8(1))])
        }
        last.add([.init(.commit)])
        _ = try await connection.run(last.queries, until: deadline)
        return moved
    }
}
