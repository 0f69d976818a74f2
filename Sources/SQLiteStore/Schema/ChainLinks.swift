// The values that a rebuild (DatabaseRebuild) writes to the columns `previous` and `jump` (EventChain). They are
// computed driver by driver, but needed in the order of event numbers. They are therefore kept in memory, with 24 bytes
// per event.

struct ChainLinks: Sendable {
    private struct Link {
        var id: Int64
        /// 0: none. The number of an event is at least 1.
        var previous: Int64
        var jump: Int64
    }

    /// In the order of `id`.
    private var links: [Link] = []
    /// How many numbers between the first and the last event number are not in use.
    private var gapCount = 0

    /// Computes the links of all events in the old file from its index `event_by_time`.
    ///
    /// - Parameter finish: called for each driver that has events, with the driver's number and the end of the driver's
    ///   chain.
    init(
        on connection: OpaquePointer, rowCount: Int,
        finish: (Int64, ChainEnd) throws(SQLiteError) -> Void = { _, _ in }
    ) throws(SQLiteError) {
        links.reserveCapacity(rowCount)
        let select = try PreparedStatement(
            """
            SELECT id, driver, corrected_at_ms FROM main.event INDEXED BY event_by_time
            ORDER BY driver, corrected_at_ms, id
            """, on: connection)
        var (driver, end) = (Int64?.none, ChainEnd())
        var links = links
        self.links = []
        try select.forEach { (_) throws(SQLiteError) in
        } visit: { (row) throws(SQLiteError) in
            let (id, next) = (row.integer(0), row.integer(1))
            if next != driver {
                if let driver { try finish(driver, end) }
                (driver, end) = (next, ChainEnd())
            }
            let (previous, jump) = end.append(id, at: row.integer(2))
            links.append(Link(id: id, previous: previous ?? 0, jump: jump ?? 0))
            return true
        }
        if let driver { try finish(driver, end) }
        links.sort { $0.id < $1.id }
        if let first = links.first, let last = links.last { gapCount = Int(last.id - first.id) + 1 - links.count }
        self.links = links
    }

    func previous(of id: Int64) -> Int64? { link(id).flatMap { $0.previous == 0 ? nil : $0.previous } }

    func jump(of id: Int64) -> Int64? { link(id).flatMap { $0.jump == 0 ? nil : $0.jump } }

    /// Finds an event's links by binary search. If all numbers were in use, the event's index in `links` would be `id`
    /// minus the first number. Each unused number lowers the index by at most one. The search therefore covers this
    /// index and the `gapCount` indexes below it.
    private func link(_ id: Int64) -> Link? {
        guard let first = links.first, id >= first.id else { return nil }
        let place = Int(id - first.id)
        var (low, high) = (max(0, place - gapCount), min(place, links.count - 1))
        while low <= high {
            let middle = (low + high) / 2
            if links[middle].id == id { return links[middle] }
            if links[middle].id < id { low = middle + 1 } else { high = middle - 1 }
        }
        return nil
    }
}
