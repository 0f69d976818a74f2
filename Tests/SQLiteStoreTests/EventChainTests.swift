// Compares the chain of a driver's events with a sorted array, after random insertions and deletions.

import GRDB
import TestSupport
import Testing

@testable import SQLiteStore

struct EventChainTests {
    /// The orders of arrival that are tried.
    enum Arrival: CaseIterable {
        case inOrder
        case reversed
        case random
        /// Most events share their time with others.
        case sharedTimes
        /// In order, but every tenth event is late.
        case someLate

        func time(_ number: Int, of count: Int, _ random: inout SeededRandom) -> Int64 {
            switch self {
            case .inOrder: Int64(number)
            case .reversed: Int64(count - number)
            case .random: .random(in: -1000...1000, using: &random)
            case .sharedTimes: .random(in: 0...5, using: &random)
            case .someLate:
                number.isMultiple(of: 10) ? Int64.random(in: 0...Int64(number), using: &random) : Int64(number)
            }
        }
    }

    @Test(arguments: Arrival.allCases)
    func `the links depend only on the stored events`(_ arrival: Arrival) throws {
        for seed in 0..<UInt64(40) {
            var random = SeededRandom(seed: seed)
            try ChainTable.use { (table) throws in
                for number in 0..<150 {
                    try table.add(at: arrival.time(number, of: 150, &random))
                    if number % 10 == 9 { try table.compare() }
                }
            }
        }
    }

    @Test(arguments: Arrival.allCases)
    func `deletions leave the survivors in the chain`(_ arrival: Arrival) throws {
        for seed in 0..<UInt64(40) {
            var random = SeededRandom(seed: seed)
            try ChainTable.use { (table) throws in
                for number in 0..<150 {
                    try table.add(at: arrival.time(number, of: 150, &random))
                    guard number % 20 == 19 else { continue }
                    // Delete some of the oldest events, as retention does: a random share, from none to all. In half of
                    // the rounds, keep some of the events in this share.
                    let share = Int.random(in: 0...10, using: &random)
                    let oldest = table.places.prefix(table.places.count * share / 10)
                    let isSparse = Bool.random(using: &random)
                    try table.delete(oldest.filter { _ in !isSparse || Bool.random(using: &random) })
                    try table.compare()
                }
            }
        }
    }

    @Test func `a walk reads the wanted times in both directions`() throws {
        for seed in 0..<UInt64(30) {
            var random = SeededRandom(seed: seed)
            try ChainTable.use { (table) throws in
                for _ in 0..<100 { try table.add(at: .random(in: 0...60, using: &random)) }
                try table.delete(table.places.prefix(50).filter { _ in Bool.random(using: &random) })
                for _ in 0..<20 {
                    let bounds = [Int64.random(in: -5...65, using: &random), .random(in: -5...65, using: &random)]
                    let times = bounds.min()!...bounds.max()!
                    let wanted = table.places.filter { times.contains($0.time) }
                    #expect(try table.walk(.forward, times) == wanted)
                    #expect(try table.walk(.backward, times) == wanted.reversed())
                    let milliseconds = Dictionary(grouping: wanted, by: \.time).sorted { $0.key < $1.key }
                    #expect(try table.milliseconds(times) == milliseconds.map { $0.value.map(\.id) })
                }
            }
        }
    }

    @Test(arguments: [Arrival.inOrder, .reversed, .random])
    func `a search among ten thousand events reads few rows`(_ arrival: Arrival) throws {
        var random = SeededRandom(seed: 7)
        try ChainTable.use { (table) throws in
            for number in 0..<10_000 { try table.add(at: 10 * arrival.time(number, of: 10_000, &random)) }
            var (worst, sum) = (0, 0)
            for _ in 0..<1000 {
                let place = table.places.randomElement(using: &random)!
                let before = table.chain.readCount
                var walk = try ChainWalk(table.chain, from: table.end.last, .forward, times: place.time...Int64.max)
                _ = try walk.next()
                worst = max(worst, table.chain.readCount - before)
                sum += table.chain.readCount - before
            }
            #expect(worst < 200)
            #expect(sum < 1000 * 80)
            let before = table.chain.readCount
            #expect(try table.walk(.forward, Int64.min...Int64.max).count == 10_000)
            #expect(table.chain.readCount - before < 10_000 * 4)
        }
    }

    @Test func `an event that comes last reads no row`() throws {
        try ChainTable.use { (table) throws in
            for number in 0..<1000 { try table.add(at: Int64(number)) }
            #expect(table.chain.readCount == 0)
        }
    }

    @Test func `the column holds any end of a chain`() throws {
        var random = SeededRandom(seed: 1)
        var end = ChainEnd()
        #expect(end.bytes.isEmpty)
        #expect(try ChainEnd(bytes: []) == end)
        for number in 0..<500 {
            _ = end.append(
                Int64(number) * 1_000_003, at: .random(in: -4_000_000_000_000...4_000_000_000_000, using: &random))
            #expect(try ChainEnd(bytes: end.bytes) == end)
        }
        #expect(throws: SQLiteError.self) { try ChainEnd(bytes: [0x80]) }
        #expect(throws: SQLiteError.self) { try ChainEnd(bytes: [0x02]) }
    }
}

/// A table with the chain of one driver's events, and a sorted array with the same events.
private final class ChainTable {
    private let db: Database
    let chain: EventChain
    var end = ChainEnd()
    private(set) var places: [ChainPlace] = []
    private var count: Int64 = 0

    static func use(_ body: (ChainTable) throws -> Void) throws {
        try DatabaseQueue().write { db in
            try db.execute(
                sql: """
                    CREATE TABLE event_row (
                        id INTEGER PRIMARY KEY, driver INTEGER NOT NULL, corrected_at_ms INTEGER NOT NULL,
                        previous INTEGER, jump INTEGER)
                    """)
            try body(ChainTable(db))
        }
    }

    private init(_ db: Database) throws {
        self.db = db
        chain = try EventChain(on: #require(db.sqliteConnection))
    }

    func add(at time: Int64) throws {
        count += 1
        let place = ChainPlace(time: time, id: count)
        let insert = try db.cachedStatement(sql: "INSERT INTO event_row VALUES (?, 1, ?, ?, ?)")
        if end.isBefore(time) {
            let links = end.append(count, at: time)
            try insert.execute(arguments: [count, time, links.previous, links.jump])
        } else {
            let insertion = try chain.insertion(of: count, at: time, into: &end)
            try insert.execute(arguments: [count, time, insertion.previous, insertion.jump])
            try chain.link(insertion, to: count)
        }
        places.insert(place, at: places.firstIndex { $0 > place } ?? places.count)
    }

    func delete(_ gone: [ChainPlace]) throws {
        let links = try gone.shuffled().map { try chain.requiredLink($0.id) }
        let last = try chain.unlink(links, from: end)
        for place in gone { try db.execute(sql: "DELETE FROM event_row WHERE id = ?", arguments: [place.id]) }
        end = try chain.end(at: last)
        let gone = Set(gone)
        places.removeAll { gone.contains($0) }
    }

    /// Compares the links (`previous` and `jump`) of every event with the links computed from the sorted array. After a
    /// deletion, a jump may also lead to a row that no longer exists.
    func compare() throws {
        var climb: [Int64] = []
        for (index, place) in places.enumerated() {
            let link = try chain.requiredLink(place.id)
            #expect(link.previous == (index == 0 ? nil : places[index - 1].id))
            let jump = places[..<index].last { EventChain.level(of: $0.id) > link.level }?.id
            if link.jump != jump { #expect(try chain.link(#require(link.jump)) == nil) }
            climb.removeAll { EventChain.level(of: $0) <= link.level }
            climb.append(place.id)
        }
        #expect(end == ChainEnd(time: places.last?.time ?? 0, climb: climb))
        #expect(try walk(.forward, Int64.min...Int64.max) == places)
        #expect(try walk(.backward, Int64.min...Int64.max) == places.reversed())
    }

    func walk(_ direction: ChainWalk.Direction, _ times: ClosedRange<Int64>) throws -> [ChainPlace] {
        var walk = try ChainWalk(chain, from: end.last, direction, times: times)
        var found: [ChainPlace] = []
        while let link = try walk.next() { found.append(link.place) }
        return found
    }

    func milliseconds(_ times: ClosedRange<Int64>) throws -> [[Int64]] {
        var walk = try ChainWalk(chain, from: end.last, .forward, times: times)
        var found: [[Int64]] = []
        while case let ids = try walk.nextMillisecond(), !ids.isEmpty { found.append(ids) }
        return found
    }
}
