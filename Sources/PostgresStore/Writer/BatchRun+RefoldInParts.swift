// Reads and writes a refold in parts, in the transaction of a batch.

import Engine
import JourneyModel
import Postgres
import Sockets

extension BatchRun {
    /// Reads, folds and writes the parts of a refold, in the transaction that has locked the driver. The rest of the
    /// batch writes the driver's row and the new events. If the driver's deletion is unfinished, does nothing, and
    /// `reads.erasing` contains the driver.
    func write(
        _ begun: RefoldInParts, of driver: DriverID, _ reads: inout BatchReads, _ shards: Shards,
        on connection: PostgresConnection, _ progress: Progress
    ) async throws(PostgresError) {
        var refold = begun
        let key = TextKey(driver.rawValue)
        // The fold runs again after the refold. If the refold is for a late event, this fold needs the events that were
        // read before the refold.
        let read = reads.tails[key]
        defer { reads.tails[key] = read }
        let lane = shards.parameters(ofLane: refold.row.lane)
        var queries = [PostgresQuery(DriverStatements.mark, lane + [.int8(progress.batch), .int8(refold.row.id)])]
        var count = 0
        while let from = refold.next {
            let part = try await reads.readPart(
                of: driver, from: from, eventsMax: tailMax, shards, on: connection,
                until: .inSeconds(Self.lockedSeconds))
            guard let part else { return }
            count += part.tail.events.count
            if refold.isInsertion { progress.noteRead(eventCount: count) }
            let changes = refold.take(part)
            queries += BatchWrites.updates(changes, of: refold.row.id, batch: progress.batch, shards)
            _ = try await connection.run(queries, until: .inSeconds(Self.lockedSeconds))
            queries = []
        }
        reads.refolded = refold
    }
}
