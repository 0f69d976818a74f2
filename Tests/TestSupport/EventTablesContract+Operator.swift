// The clauses about the operator's lists.

import Engine
import JourneyModel

extension EventTablesContract {
    private static func append(
        _ name: EventName, of driver: String, session: String? = nil, charger: String? = nil, minutesAgo: Int,
        to store: any Store
    ) async throws {
        let at = Moment.sample.advanced(bySeconds: -60 * minutesAgo)
        let submission = EventSubmission.sample(
            name, key: "\(driver)\(minutesAgo)", session: session, charger: charger, at: at)
        try await post(submission, of: DriverID(driver), to: store)
    }

    private static func activate(
        _ driver: String, session: String, minutesAgo: Int, in store: any Store
    ) async throws {
        try await append(.enteredChargerIntentZone, of: driver, minutesAgo: minutesAgo, to: store)
        try await append(.anchorDwellComplete, of: driver, minutesAgo: minutesAgo - 1, to: store)
        try await append(.exclusiveActivatedByWeb, of: driver, session: session, minutesAgo: minutesAgo - 2, to: store)
    }

    static let operatorLists: [Clause] = [
        Clause("drivers are listed by state, page by page, the last seen first") { store in
            for driver in ["a", "b", "c"] {
                try await append(.enteredChargerIntentZone, of: driver, minutesAgo: 5, to: store)
            }
            try await append(.anchorDwellComplete, of: "b", minutesAgo: 4, to: store)
            let near = try await store.drivers(in: .nearCharger, before: nil, limit: 50)
            try expect(near.elements.map(\.driver.rawValue), ["c", "a"], "near a charger")
            try expect(near.next, nil, "no next page")
            let first = try await store.drivers(in: nil, before: nil, limit: 2)
            try expect(first.elements.map(\.state), [.nearCharger, .anchored], "first page")
            let rest = try await store.drivers(in: nil, before: first.next, limit: 2)
            try expect(rest.elements.map(\.driver.rawValue), ["a"], "second page")
            try expect(rest.next, nil, "no third page")
        },
        Clause("one driver with its sessions and events, and the reason why a journey ended") { store in
            try await activate("a", session: "s", minutesAgo: 9, in: store)
            let found = try await store.driver(DriverID("a"), sessions: 5, events: 2)
            try expect(found?.summary.state, .sessionActive, "state")
            try expect(found?.summary.sessionID, "s", "session")
            try expect(found?.sessions.map(\.sessionID), ["s"], "sessions")
            try expect(found?.events.map(\.name), ["exclusiveActivatedByWeb", "anchorDwellComplete"], "events")
            try expect(try await store.driver(DriverID("nobody"), sessions: 5, events: 2), nil, "unknown")
            try await append(.visitVerifiedByWeb, of: "a", session: "s", minutesAgo: 5, to: store)
            let ended = try await store.driver(DriverID("a"), sessions: 5, events: 2)
            try expect(ended?.summary.endedBy, .verified, "driver")
            try expect(ended?.sessions.map(\.journey?.endedBy), [.verified], "session")
            try expect(ended?.events.map(\.endedBy), [.verified, nil], "events")
            let listed = try await store.events(EventFilter(), before: nil, limit: 1)
            try expect(listed.elements.map(\.endedBy), [.verified], "list of events")
        },
        Clause("sessions are filtered by state, end, time and charger, page by page") { store in
            try await activate("a", session: "old", minutesAgo: 500, in: store)
            try await append(
                .visitVerifiedByWeb, of: "a", session: "old", charger: "c-1", minutesAgo: 490, to: store)
            try await activate("b", session: "new", minutesAgo: 9, in: store)
            func list(_ change: (inout SessionFilter) -> Void) async throws -> [String] {
                var filter = SessionFilter()
                change(&filter)
                let page = try await store.sessions(filter, before: nil, limit: 50, at: .sample)
                return page.elements.map(\.session.sessionID)
            }
            try expect(try await list { _ in }, ["new", "old"], "all")
            try expect(try await list { $0.state = .sessionActive }, ["new"], "active")
            try expect(try await list { $0.since = .sample.advanced(bySeconds: -3600) }, ["new"], "since")
            try expect(try await list { $0.until = .sample.advanced(bySeconds: -3600) }, ["old"], "until")
            try expect(try await list { $0.isEnded = false }, ["new"], "not ended")
            try expect(try await list { $0.chargerID = "c-1" }, ["old"], "at the charger")
            try expect(try await list { $0.chargerID = "nowhere" }, [], "at no charger")
            let page = try await store.sessions(SessionFilter(), before: nil, limit: 1, at: .sample)
            try expect(page.elements.map(\.session.sessionID), ["new"], "first page")
            let rest = try await store.sessions(SessionFilter(), before: page.next, limit: 1, at: .sample)
            try expect(rest.elements.map(\.session.sessionID), ["old"], "second page")
        },
        Clause("events are filtered by name, verdict, state and time, the last stored first") { store in
            try await append(.enteredChargerIntentZone, of: "a", minutesAgo: 300, to: store)
            try await append(.diagnostic("teleport_detected"), of: "a", minutesAgo: 200, to: store)
            try await append(.visitVerifiedByWeb, of: "a", session: "s", minutesAgo: 100, to: store)
            try await append(.anchorDwellComplete, of: "a", minutesAgo: 9, to: store)
            func list(_ change: (inout EventFilter) -> Void) async throws -> [String] {
                var filter = EventFilter()
                change(&filter)
                return try await store.events(filter, before: nil, limit: 50).elements.map(\.name)
            }
            let all = [
                "anchorDwellComplete", "visitVerifiedByWeb", "teleport_detected", "enteredChargerIntentZone",
            ]
            try expect(try await list { _ in }, all, "all")
            try expect(try await list { $0.name = "diagnostic" }, ["teleport_detected"], "diagnostic")
            try expect(try await list { $0.name = all[3] }, [all[3]], "by name")
            try expect(try await list { $0.transition = .rejected }, ["visitVerifiedByWeb"], "rejected")
            try expect(try await list { $0.reason = .notAtMerchant }, ["visitVerifiedByWeb"], "by reason")
            try expect(try await list { $0.state = .anchored }, ["anchorDwellComplete"], "by state")
            let middle = Moment.sample.advanced(bySeconds: -150 * 60)
            try expect(try await list { $0.since = middle }, Array(all[..<2]), "since")
            try expect(try await list { $0.until = middle }, Array(all[2...]), "until")
            let page = try await store.events(EventFilter(), before: nil, limit: 3)
            let rest = try await store.events(EventFilter(), before: page.next, limit: 3)
            try expect(page.elements.map(\.name) + rest.elements.map(\.name), all, "two pages")
        },
        Clause("a search finds drivers and sessions by their beginning, and no other chargers") { store in
            _ = try await store.register(
                SessionRegistration(
                    sessionID: "find-session", driver: DriverID("find-driver"), chargerID: "find-charger",
                    merchantID: nil, receivedAt: .sample))
            try await append(
                .enteredChargerIntentZone, of: "other", session: "not", charger: "other-charger", minutesAgo: 5,
                to: store)
            let found = try await store.search("find-", limit: 5)
            try expect(found.drivers.map(\.driver.rawValue), ["find-driver"], "drivers")
            try expect(found.sessions.map(\.session.sessionID), ["find-session"], "sessions")
            try expect(found.sessions.map(\.driver.rawValue), ["find-driver"], "driver of the session")
            try expect(found.chargerIDs, ["find-charger"], "chargers")
            try expect(try await store.search("nothing", limit: 5).sessions, [], "nothing")
        },
        Clause("a search finds the chargers of events, each once, in their order") { store in
            for (index, charger) in ["c-2", "c-10", "c-1", "c-2", "d-1"].enumerated() {
                try await append(.chargerTargeted, of: "a", charger: charger, minutesAgo: 9 - index, to: store)
            }
            try expect(try await store.search("c-", limit: 5).chargerIDs, ["c-1", "c-10", "c-2"], "chargers")
            try expect(try await store.search("c-", limit: 2).chargerIDs, ["c-1", "c-10"], "the first two")
            try expect(try await store.search("c-10", limit: 5).chargerIDs, ["c-10"], "one")
            try expect(try await store.search("e", limit: 5).chargerIDs, [], "none")
        },
        Clause("a search finds no merchants, but a place that is both a charger and a merchant") { store in
            func arrive(_ merchant: String, charger: String? = nil, minutesAgo: Int) async throws {
                let submission = EventSubmission.sample(
                    .enteredMerchantZone, key: "m\(minutesAgo)", session: "s", charger: charger, merchant: merchant,
                    at: .sample.advanced(bySeconds: -60 * minutesAgo))
                try await post(submission, of: DriverID("a"), to: store)
            }
            try await arrive("p-1", minutesAgo: 9)
            try await arrive("p-2", charger: "p-3", minutesAgo: 8)
            try await arrive("p-4", charger: "p-4", minutesAgo: 7)
            _ = try await store.register(
                SessionRegistration(
                    sessionID: "r", driver: DriverID("a"), chargerID: "p-6", merchantID: "p-7", receivedAt: .sample))
            try expect(try await store.search("p-", limit: 9).chargerIDs, ["p-3", "p-4", "p-6"], "chargers")
            try await append(.chargerTargeted, of: "a", charger: "p-1", minutesAgo: 6, to: store)
            try await arrive("p-3", minutesAgo: 5)
            let later = ["p-1", "p-3", "p-4", "p-6"]
            try expect(try await store.search("p-", limit: 9).chargerIDs, later, "after both")
        },
        Clause("a search finds the chargers of registered sessions among those of events, each once") { store in
            for (session, charger) in [("a", "c-3"), ("b", "c-1"), ("c", "c-1"), ("d", "c-4"), ("e", "other")] {
                _ = try await store.register(
                    SessionRegistration(
                        sessionID: session, driver: DriverID("d"), chargerID: charger, merchantID: nil,
                        receivedAt: .sample))
            }
            for (index, charger) in ["c-2", "c-4"].enumerated() {
                try await append(.chargerTargeted, of: "a", charger: charger, minutesAgo: 9 - index, to: store)
            }
            try expect(try await store.search("c-", limit: 5).chargerIDs, ["c-1", "c-2", "c-3", "c-4"], "chargers")
            try expect(try await store.search("c-", limit: 3).chargerIDs, ["c-1", "c-2", "c-3"], "the first three")
            try expect(try await store.search("c-3", limit: 5).chargerIDs, ["c-3"], "one")
            try expect(try await store.search("e", limit: 5).chargerIDs, [], "none")
        },
    ]
}
