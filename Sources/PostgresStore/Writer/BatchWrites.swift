// The round trip that writes a batch: BEGIN, the update of drivers, the inserts of their events and sessions, COMMIT.

import Engine
import JourneyModel
import Postgres
import Synchronization

struct BatchWrites {
    /// The queries up to the update of drivers, in this order:
    ///
    /// - BEGIN, if the reads have not begun the transaction,
    /// - the inserts of settings and new drivers, which do nothing for existing rows,
    /// - the query for new drivers who were deleted since the reads (ErasedDrivers),
    /// - the update of drivers.
    ///
    /// All batches take locks in this order: settings, new drivers, drivers by id, owners of sessions. The fixed order
    /// prevents deadlocks. One kind of batch has another order: if a group needs a lock (`DriverGroup.needsLock`), its
    /// batch locks the driver before the reads.
    ///
    /// On a single PostgreSQL server, the other order causes no deadlock, because the updates of other batches skip the
    /// locked driver.
    ///
    /// On Citus, the updates of other batches wait for the locked driver, so a deadlock is possible. PostgreSQL then
    /// rolls one of the batches back, and that batch is run again.
    let moving: [PostgresQuery]
    /// The indexes in `moving` of the queries that update drivers. These queries return the `driver.id` of each updated
    /// driver.
    let moves: Range<Int>
    /// On Citus, the index in `moving` of the query that finds deletions of this batch's new drivers (ErasedDrivers).
    /// Empty on a single PostgreSQL server, or if the batch has no such query.
    let erased: Range<Int>
    let settings: [String]
    /// The groups with something to write.
    let changed: [FoldedGroup]
    let batch: Int64
    let shards: Shards

    /// Nil if there is nothing to write.
    init?(_ groups: [FoldedGroup], batch: Int64, begins: Bool, known: KnownSettings, _ shards: Shards) {
        changed = groups.filter { $0.moved != nil }
        if changed.isEmpty { return nil }
        (self.batch, self.shards) = (batch, shards)
        var trip = RoundTrip()
        if begins { trip.add([.init(.begin)]) }

        var settings: [String: (settings: VersionedSettings, at: Moment)] = [:]
        for group in changed { settings.merge(group.settings) { first, _ in first } }
        let new = settings.filter { !known.contains($0.key) }.sorted { TextKey($0.key) < TextKey($1.key) }
        trip.add(new.map { SettingsStatements.addQuery($0.value.settings, at: $0.value.at) })
        self.settings = new.map(\.key)

        let created = changed.compactMap { group in
            group.createdAt.flatMap { at in group.moved.map { (row: $0.row, at: at, digest: group.creatingDigest) } }
        }
        trip.add(
            created.sorted { TextKey($0.row.driver.rawValue) < TextKey($1.row.driver.rawValue) }
                .map { DriverStatements.addQuery($0.row, at: $0.at) })

        let digested = created.compactMap { new in new.digest.map { (new.row.id, $0, new.at) } }
        if digested.isEmpty {
            erased = trip.add([])
        } else if shards.areDistributed {
            erased = trip.add([ErasedDrivers.findRecentQuery(digested)])
        } else {
            erased = trip.add([])
            trip.add([ErasedDrivers.takeBackQuery(digested)])
        }
        moves = trip.add(DriverStatements.moveQueries(changed.compactMap(\.moved), batch: batch, shards))
        moving = trip.queries
    }

    /// The queries after the update of drivers, on a single PostgreSQL server. They join with the updated drivers, so
    /// they write nothing for any other driver.
    var storing: [PostgresQuery] {
        var queries: [PostgresQuery] = []
        let claims = changed.flatMap(\.claims)
        if !claims.isEmpty { queries.append(SessionClaim.addQuery(claims, batch: batch)) }
        let added = Self.events(of: changed, \.added)
        if !added.isEmpty { queries.append(EventOfDriver.addQuery(added, batch: batch)) }
        queries += Self.updates(of: changed, batch: batch, shards)
        let sessions = changed.flatMap(\.sessions)
        if !sessions.isEmpty { queries.append(SessionRow.writeQuery(sessions, batch: batch)) }
        for case let moved? in changed.filter(\.hasRegistered).map(\.moved) {
            queries.append(PostgresQuery(SessionStatements.forgetUnused, [.int8(moved.row.id), .int8(batch)]))
        }
        return queries
    }

    static func events(
        of groups: [FoldedGroup], _ list: (FoldedGroup) -> [FoldedEvent]
    ) -> [EventOfDriver] {
        groups.flatMap { group in
            list(group).map { EventOfDriver(driver: group.moved?.row.id ?? 0, folded: $0) }
        }
    }

    /// Returns the queries that write a part of a refold.
    static func updates(
        _ changes: RefoldInParts.Changes, of driver: Int64, batch: Int64, _ shards: Shards
    ) -> [PostgresQuery] {
        let ofDriver = { (events: [FoldedEvent]) in events.map { EventOfDriver(driver: driver, folded: $0) } }
        return EventOfDriver.updateQueries(ofDriver(changes.refolded), batch: batch, shards)
            + EventOfDriver.correctQueries(ofDriver(changes.corrected), batch: batch, shards)
    }

    /// Returns the queries that write new verdicts into stored events.
    static func updates(of groups: [FoldedGroup], batch: Int64, _ shards: Shards) -> [PostgresQuery] {
        EventOfDriver.updateQueries(events(of: groups, \.refolded), batch: batch, shards)
    }
}

/// The versions of settings whose rows are certainly committed. Batches need not write these rows again.
final class KnownSettings: Sendable {
    /// The maximum number of versions kept in memory. An installation has far fewer.
    private static let countMax = 10_000
    private let versions = Mutex(Set<String>())

    func contains(_ version: String) -> Bool { versions.withLock { $0.contains(version) } }

    func note(_ committed: [String]) {
        guard !committed.isEmpty else { return }
        versions.withLock { versions in
            if versions.count >= Self.countMax { versions.removeAll() }
            versions.formUnion(committed)
        }
    }
}
