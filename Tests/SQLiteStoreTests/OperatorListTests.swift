// Tests of the operator's lists. Every query uses a key or an index. A scan of a whole table would slow down the
// writer.

import Engine
import GRDB
import JourneyModel
import SharedTables
import TestSupport
import Testing

@testable import SQLiteStore

@Suite struct OperatorListTests {
    private let folder: ScratchFolder
    private let now = Moment.sample

    init() throws { folder = try ScratchFolder() }

    private func open() throws -> SQLiteEventStore {
        try SQLiteEventStore(path: folder.file("db"), nowMilliseconds: 0)
    }

    private func append(
        _ name: EventName, of driver: String, session: String? = nil, minutesAgo: Int, in store: SQLiteEventStore
    ) async throws {
        let at = now.advanced(bySeconds: -60 * minutesAgo)
        _ = try await store.appended(
            .sample(
                .sample(name, key: "\(driver)\(minutesAgo)", session: session, at: at), of: DriverID(driver),
                receivedAt: at))
    }

    private func activated(_ driver: String, session: String, minutesAgo: Int, in store: SQLiteEventStore) async throws
    {
        try await append(.enteredChargerIntentZone, of: driver, minutesAgo: minutesAgo, in: store)
        try await append(.anchorDwellComplete, of: driver, minutesAgo: minutesAgo - 1, in: store)
        try await append(
            .exclusiveActivatedByWeb, of: driver, session: session, minutesAgo: minutesAgo - 2, in: store)
    }

    @Test func driversAreListedByStateAndPageByPage() async throws {
        let store = try open()
        for driver in ["a", "b", "c"] {
            try await append(.enteredChargerIntentZone, of: driver, minutesAgo: 5, in: store)
        }
        try await append(.anchorDwellComplete, of: "b", minutesAgo: 4, in: store)
        let near = try await store.drivers(in: .nearCharger, before: nil, limit: 50)
        #expect(near.elements.map(\.driver.rawValue) == ["c", "a"] && near.next == nil)
        let first = try await store.drivers(in: nil, before: nil, limit: 2)
        #expect(first.elements.map(\.state) == [.nearCharger, .anchored] && first.next != nil)
        let rest = try await store.drivers(in: nil, before: first.next, limit: 2)
        #expect(rest.elements.map(\.driver.rawValue) == ["a"] && rest.next == nil)
        await store.close()
    }

    @Test func oneDriverWithItsSessionsAndEvents() async throws {
        let store = try open()
        try await activated("a", session: "s", minutesAgo: 9, in: store)
        let found = try #require(try await store.driver(DriverID("a"), sessions: 5, events: 2))
        #expect(found.summary.state == .sessionActive && found.summary.sessionID == "s")
        #expect(found.sessions.map(\.sessionID) == ["s"])
        #expect(found.events.map(\.name) == ["exclusiveActivatedByWeb", "anchorDwellComplete"])
        #expect(try await store.driver(DriverID("nobody"), sessions: 5, events: 2) == nil)
        await store.close()
    }

    @Test func whoStandsInSessionEndedIsShownWithTheReason() async throws {
        let store = try open()
        try await activated("a", session: "s", minutesAgo: 9, in: store)
        try await append(.visitVerifiedByWeb, of: "a", session: "s", minutesAgo: 5, in: store)
        let found = try #require(try await store.driver(DriverID("a"), sessions: 5, events: 2))
        #expect(found.summary.endedBy == .verified && found.sessions.map(\.journey?.endedBy) == [.verified])
        #expect(found.events.map(\.endedBy) == [.verified, nil])
        #expect(try await store.drivers(in: nil, before: nil, limit: 1).elements.map(\.endedBy) == [.verified])
        #expect(
            try await store.events(EventFilter(), before: nil, limit: 1).elements.map(\.endedBy) == [.verified])
        await store.close()
    }

    @Test func sessionsAreFilteredByStateEndAndTime() async throws {
        let store = try open()
        try await activated("a", session: "old", minutesAgo: 500, in: store)
        try await append(.visitVerifiedByWeb, of: "a", session: "old", minutesAgo: 490, in: store)
        try await activated("b", session: "new", minutesAgo: 9, in: store)
        func list(_ change: (inout SessionFilter) -> Void) async throws -> [String] {
            var filter = SessionFilter()
            change(&filter)
            return try await store.sessions(filter, before: nil, limit: 50, at: now).elements.map(\.session.sessionID)
        }
        #expect(try await list { _ in } == ["new", "old"])
        #expect(try await list { $0.state = .sessionActive } == ["new"])
        #expect(try await list { $0.since = now.advanced(bySeconds: -3600) } == ["new"])
        #expect(try await list { $0.until = now.advanced(bySeconds: -3600) } == ["old"])
        #expect(try await list { $0.isEnded = false } == ["new"])
        #expect(try await list { $0.chargerID = "nowhere" } == [])
        let page = try await store.sessions(SessionFilter(), before: nil, limit: 1, at: now)
        #expect(page.elements.map(\.session.sessionID) == ["new"] && page.next != nil)
        let rest = try await store.sessions(SessionFilter(), before: page.next, limit: 1, at: now)
        #expect(rest.elements.map(\.session.sessionID) == ["old"])
        await store.close()
    }

    @Test func aSessionIsFoundByTheChargerOfItsEvents() async throws {
        let store = try open()
        try await activated("a", session: "s", minutesAgo: 9, in: store)
        try await store.change { db in
            try db.execute(sql: "INSERT INTO place (place_id) VALUES ('here')")
            try db.execute(sql: "UPDATE event_row SET charger = last_insert_rowid() WHERE session IS NOT NULL")
        }
        var filter = SessionFilter()
        filter.chargerID = "here"
        let found = try await store.sessions(filter, before: nil, limit: 50, at: now)
        #expect(found.elements.map(\.session.sessionID) == ["s"])
        #expect(found.elements.map(\.session.chargerID) == ["here"])
        let detail = try await store.driver(DriverID("a"), sessions: 5, events: 5)
        #expect(detail?.sessions.map(\.chargerID) == ["here"])
        #expect(try await store.search("he", limit: 5).chargerIDs == ["here"])
        await store.close()
    }

    @Test func `a session without events is found by the charger of its registration`() async throws {
        let store = try open()
        for (session, charger) in [("here", "charger-1"), ("there", "charger-2")] {
            _ = try await store.register(
                SessionRegistration(
                    sessionID: session, driver: DriverID("a"), chargerID: charger, merchantID: "merchant",
                    receivedAt: now))
        }
        var filter = SessionFilter()
        filter.chargerID = "charger-1"
        let found = try await store.sessions(filter, before: nil, limit: 50, at: now)
        #expect(found.elements.map(\.session.sessionID) == ["here"])
        #expect(found.elements.map(\.session.chargerID) == ["charger-1"])
        #expect(found.elements.map(\.session.merchantID) == ["merchant"])
        filter.chargerID = "charger-3"
        #expect(try await store.sessions(filter, before: nil, limit: 50, at: now).elements.isEmpty)
        await store.close()
    }

    @Test func eventsAreFilteredByWhatBecameOfThem() async throws {
        let store = try open()
        try await activated("a", session: "s", minutesAgo: 9, in: store)
        try await append(.anchorDwellComplete, of: "b", minutesAgo: 3, in: store)
        try await append(.diagnostic("teleport_detected"), of: "b", minutesAgo: 2, in: store)
        func list(_ change: (inout EventFilter) -> Void) async throws -> [String] {
            var filter = EventFilter()
            change(&filter)
            return try await store.events(filter, before: nil, limit: 50).elements.map {
                "\($0.driver.rawValue) \($0.name)"
            }
        }
        #expect(try await list { $0.transition = .rejected } == ["b anchorDwellComplete"])
        #expect(
            try await list {
                $0.name = "anchorDwellComplete"
                $0.state = .anchored
            } == ["a anchorDwellComplete"])
        #expect(try await list { $0.name = "diagnostic" } == ["b teleport_detected"])
        #expect(try await list { $0.since = now.advanced(bySeconds: -150) } == ["b teleport_detected"])
        let early = ["b anchorDwellComplete", "a exclusiveActivatedByWeb", "a anchorDwellComplete"]
        #expect(try await list { $0.until = now.advanced(bySeconds: -150) } == early + ["a enteredChargerIntentZone"])
        #expect(
            try await list {
                $0.since = now.advanced(bySeconds: -400)
                $0.until = now.advanced(bySeconds: -150)
            } == ["b anchorDwellComplete"])
        var recent = EventFilter()
        recent.since = now.advanced(bySeconds: -150)
        #expect(try await store.events(recent, before: nil, limit: 50).next == nil)
        let page = try await store.events(EventFilter(), before: nil, limit: 4)
        #expect(page.next != nil)
        let rest = try await store.events(EventFilter(), before: page.next, limit: 4)
        #expect(rest.elements.map(\.name) == ["enteredChargerIntentZone"] && rest.next == nil)
        await store.close()
    }

    @Test func aSearchFindsByTheBeginOfAnIdAndByAWholePhoneNumber() async throws {
        let store = try open()
        try await activated("driver-1", session: "visit-1", minutesAgo: 9, in: store)
        try await append(.chargerTargeted, of: "driver-2", minutesAgo: 5, in: store)
        try await store.change { db in
            try db.execute(
                sql: """
                    INSERT INTO phone_identity (phone, driver, linked_at_ms)
                    SELECT '+4915112345678', id, 0 FROM driver WHERE driver_id = 'driver-2'
                    """)
        }
        #expect(try await store.search("driver-", limit: 5).drivers.map(\.driver.rawValue) == ["driver-1", "driver-2"])
        #expect(try await store.search("visit", limit: 5).sessions.map(\.session.sessionID) == ["visit-1"])
        #expect(
            try await store.search("+49 151 12345678", limit: 5).drivers.map(\.driver.rawValue) == ["driver-2"])
        #expect(try await store.search("%", limit: 5) == SearchResult(drivers: [], sessions: [], chargerIDs: []))
        await store.close()
    }

    // MARK: Query plans

    private static let queries = [
        SQLiteEventStore.driversSQL, SQLiteEventStore.driversByNameSQL, SQLiteEventStore.driverByPhoneSQL,
        SQLiteEventStore.sessionsByNameSQL, SQLiteEventStore.placesByNameSQL,
        SQLiteEventStore.firstRegisteredChargerSQL, SQLiteEventStore.nextRegisteredChargerSQL,
        SQLiteEventStore.sessionsSQL,
        SQLiteEventStore.eventsSQL.replacing("NAME", with: "event_kind.name = ?7"), SQLiteEventStore.driverEventsSQL,
        SQLiteEventStore.driverSessionsSQL,
        StoredHistory.readSQL, StoredHistory.deleteSQL,
    ]

    @Test(arguments: queries) func noQueryReadsAWholeTable(sql: String) async throws {
        let store = try open()
        let plan = try await store.read { db in
            let statement = try db.makeStatement(sql: "EXPLAIN QUERY PLAN " + sql)
            statement.setUncheckedArguments(StatementArguments())
            return try Row.fetchAll(statement).map { $0["detail"] as String }
        }
        #expect(!plan.isEmpty)
        // The only allowed scan is of a query's parameter, a list of ids.
        let scans = plan.filter { $0.hasPrefix("SCAN ") && !$0.contains("CONSTANT ROW") }
        #expect(scans.allSatisfy { $0.hasPrefix("SCAN listed VIRTUAL TABLE") }, "\(plan)")
        // No query may sort, because it would read all its rows before it returns the first one. The two exceptions,
        // the history of operations and a list of ids, have few rows.
        if !sql.contains("operation_count"), !sql.contains("listed") {
            #expect(!plan.contains { $0.contains("TEMP B-TREE") }, "\(plan)")
        }
        await store.close()
    }
}
