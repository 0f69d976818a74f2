// The one round trip that writes a batch: BEGIN, M, K and what belongs to them, COMMIT.

import Engine
import JourneyModel
import Postgres
import Synchronization

struct BatchWrites {
    /// The batch's queries, in the order of the locks that they take. All batches take locks in this order, so that two
    /// batches do not wait for each other: settings, new drivers, drivers by id, sessions' owners.
    let queries: [PostgresQuery]
    /// The index in `queries` of M, whose result has the ids of the moved drivers.
    let moveIndex: Int
    let settings: [String]

    /// Nil if there is nothing to write.
    init?(_ groups: [FoldedGroup], batch: Int64, begins: Bool, known: KnownSettings) {
        let changed = groups.filter { $0.moved != nil }
        if changed.isEmpty { return nil }
        var queries: [PostgresQuery] = begins ? [.init(.begin)] : []

        var settings: [String: (settings: VersionedSettings, at: Moment)] = [:]
        for group in changed { settings.merge(group.settings) { first, _ in first } }
        let new = settings.filter { !known.contains($0.key) }.sorted { TextKey($0.key) < TextKey($1.key) }
        queries += new.map { SettingsStatements.addQuery($0.value.settings, at: $0.value.at) }
        self.settings = new.map(\.key)

        let created = changed.compactMap { group in
            group.createdAt.flatMap { at in group.moved.map { (row: $0.row, at: at, digest: group.creatingDigest) } }
        }
        queries += created.sorted { TextKey($0.row.driver.rawValue) < TextKey($1.row.driver.rawValue) }
            .map { DriverStatements.addQuery($0.row, at: $0.at) }

        let digested = created.compactMap { new in new.digest.map { (new: new, digest: $0) } }
        if !digested.isEmpty {
            queries.append(ErasedDrivers.takeBackQuery(digested.map { ($0.new.row.id, $0.digest, $0.new.at) }))
        }
        moveIndex = queries.count
        queries.append(DriverStatements.moveQuery(changed.compactMap(\.moved), batch: batch))
        let claims = changed.flatMap(\.claims)
        if !claims.isEmpty { queries.append(SessionClaim.addQuery(claims, batch: batch)) }
        let events = { (list: (FoldedGroup) -> [FoldedEvent]) in
            changed.flatMap { group in
                list(group).map { EventOfDriver(driver: group.moved?.row.id ?? 0, folded: $0) }
            }
        }
        let (added, refolded, corrected) = (events(\.added), events(\.refolded), events(\.corrected))
        if !added.isEmpty { queries.append(EventOfDriver.addQuery(added, batch: batch)) }
        if !refolded.isEmpty { queries.append(EventOfDriver.updateQuery(refolded, batch: batch)) }
        if !corrected.isEmpty { queries.append(EventOfDriver.correctQuery(corrected, batch: batch)) }
        let sessions = changed.flatMap(\.sessions)
        if !sessions.isEmpty { queries.append(SessionRow.writeQuery(sessions, batch: batch)) }
        for case let moved? in changed.filter(\.hasRegistered).map(\.moved) {
            queries.append(PostgresQuery(SessionReads.forgetUnused, [.int8(moved.row.id), .int8(batch)]))
        }
        queries.append(.init(.commit))
        self.queries = queries
    }
}

/// The settings whose rows are certainly committed, so that no batch needs to write them again.
final class KnownSettings: Sendable {
    /// An installation has far fewer.
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
