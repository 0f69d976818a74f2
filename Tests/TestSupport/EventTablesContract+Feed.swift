// The clauses about the feed of events.

import Engine
import JourneyModel

extension EventTablesContract {
    static let feed: [Clause] = [
        Clause("events come in the order of their commits, whatever their place in the journey") { store in
            let driver = DriverID("d")
            for number in 1...5 {
                let submission = EventSubmission.sample(
                    .chargerTargeted, key: "k\(number)", at: .sample.advanced(bySeconds: -number),
                    metadata: "{\"a\":1}")
                _ = try await store.appended(.sample(submission, of: driver))
            }
            let first = try await store.fed(3, limit: 3)
            try expect(first.map(\.eventID), ["k1", "k2", "k3"], "first page")
            try expect(first.map(\.driver), [driver, driver, driver], "drivers")
            try expect(first.map(\.metadata), Array(repeating: "{\"a\":1}", count: 3), "metadata")
            try expect(first.map(\.state), [.idle, .idle, .idle], "states")
            let rest = try await store.fed(2, after: first[2].id, limit: 3)
            try expect(rest.map(\.eventID), ["k4", "k5"], "second page")
            try expect(rest.map(\.id), rest.map(\.id).sorted(), "order of ids")
            try expect(try await store.storedEvents(after: rest[1].id, limit: 3), [], "after the last event")
        },
        Clause("the events of one call come in its order") { store in
            let requests = (0..<40).map { number in
                AppendRequest.sample(
                    .sample(.diagnostic("d"), key: "k\(number)", at: .sample.advanced(bySeconds: -number)),
                    of: DriverID("d\(number % 3)"))
            }
            _ = await store.append(requests)
            let fed = try await store.fed(40)
            for driver in 0..<3 {
                try expect(
                    fed.filter { $0.driver == DriverID("d\(driver)") }.map(\.eventID),
                    (0..<40).filter { $0 % 3 == driver }.map { "k\($0)" }, "driver \(driver)")
            }
        },
        Clause("a consumer's place is kept and never goes back") { store in
            _ = try await store.appended(.sample(.sample(.chargerTargeted, key: "k"), of: DriverID("d")))
            // On PostgreSQL, an event enters the feed only when all older transactions have ended, including those of
            // autovacuum.
            var begin = try await store.position(of: "a")
            while begin.newest == 0 {
                try await Task.sleep(for: .milliseconds(10))
                begin = try await store.position(of: "a")
            }
            let event = try await store.storedEvents(after: begin.last, limit: 10)[0]
            try expect([begin.newest, begin.lostCount, begin.waitingCount], [event.id, 0, 1], "begin")
            try await store.move("a", to: event.id + 6, losing: 2, at: .sample)
            try await store.move("a", to: event.id + 8, losing: 1, at: .sample)
            try await store.move("a", to: event.id + 7, losing: 5, at: .sample)
            let moved = try await store.position(of: "a")
            try expect([moved.last, moved.newest, moved.lostCount], [event.id + 8, event.id, 3], "moved")
            try expect(moved.waitingCount, 0, "waiting")
            try expect(try await store.position(of: "b"), begin, "another consumer")
        },
    ]
}
