// Checks that each driver's chain (a linked list, EventChain.swift) contains exactly the driver's events, in order and
// with the correct links. `dwell check` runs this check before it folds a driver's events, because the fold finds the
// events through the chain.

import GRDB

struct ChainCheck {
    /// For each driver, the number of events with row numbers up to `last`.
    private var counts: [Int64: Int] = [:]
    private let last: Int64

    /// Counts all events. Memory grows with the number of drivers.
    init(_ db: Database) throws {
        last = try StoredEvents.newestID(db)
        let rows = try Row.fetchCursor(db, sql: "SELECT driver FROM event")
        while let row = try rows.next() { counts[row[0], default: 0] += 1 }
    }

    func problems(of driver: Int64, _ db: Database) throws -> [String] {
        let chain = try EventChain(db)
        let end = try DriverEvents.end(of: driver, db)
        var problems: [String] = []
        // The correct end of the chain after the events checked so far. It determines the correct links of the next
        // event.
        var built = ChainEnd()
        var count = 0
        do throws(SQLiteError) {
            var walk = try ChainWalk(chain, from: end.last, .forward)
            while let link = try walk.next() {
                if link.id <= last { count += 1 }
                if let before = built.last, link.place <= ChainPlace(time: built.time, id: before) {
                    problems.append("driver \(driver), event \(link.id): its chain is not in order")
                    return problems
                }
                let expected = built.append(link.id, at: link.time)
                var isJump = link.jump == expected.jump
                // `jump` may lead to a deleted event, because retention does not update it.
                if !isJump, let jump = link.jump { isJump = try chain.link(jump) == nil }
                if link.previous != expected.previous || !isJump {
                    let links = [link.previous, link.jump, expected.previous, expected.jump].map { $0 ?? 0 }
                    problems.append(
                        "driver \(driver), event \(link.id): its links are \(links[0]) and \(links[1]), not \(links[2]) "
                            + "and \(links[3])")
                    return problems
                }
            }
        } catch {
            problems.append("driver \(driver): its chain cannot be read (\(error.message))")
            return problems
        }
        if end != built {
            problems.append("driver \(driver): the end of its chain differs from its events")
        }
        // Retention may have deleted events since they were counted.
        if count != counts[driver] ?? 0 {
            let stored = try Int.fetchOne(
                db, sql: "SELECT count(*) FROM event WHERE driver = ? AND id <= ?", arguments: [driver, last])
            if count != stored {
                problems.append("driver \(driver): its chain has \(count) events, and the table has \(stored ?? 0)")
            }
        }
        return problems
    }
}
