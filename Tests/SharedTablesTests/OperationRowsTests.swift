// Tests of the operator page on both databases: the history of settings, the instances and the counts.

import Engine
import Identity
import JourneyModel
import TestSupport
import Testing

@testable import SharedTables

struct OperationRowsTests {
    private let start = Sample.now

    @Test(arguments: TestedDatabase.allCases)
    func `settings are recorded when they change, by one of several servers`(_ database: TestedDatabase) async throws {
        try await database.with { store in
            var settings = Settings()
            let first = VersionedSettings(settings: settings, version: settings.version)
            settings.gracePeriodSeconds += 1
            let second = VersionedSettings(settings: settings, version: settings.version)
            let note = SettingsChangeNote(changedBy: "ada", reason: "a test")
            await withTaskGroup(of: Void.self) { group in
                for _ in 0..<8 { group.addTask { _ = try? await store.record(first, note: note, at: self.start) } }
            }
            #expect(try await store.count("settings_change") == 1)
            let rules = RecordedRules(version: "rules", json: "{}")
            // The first settings already have this note, so it is not stored again.
            #expect(try await !store.record(second, rules: rules, note: note, at: start.advanced(bySeconds: 1)))
            #expect(try await store.record(second, rules: rules, at: start.advanced(bySeconds: 2)))
            for number in 0..<3 {
                let reload = SettingsReloadRecord(at: start, isGood: number != 1, details: ["one", "\(number)"])
                try await store.record(reload, of: "server")
            }
            let history = try await store.settingsHistory(limit: 2)
            #expect(history.changes.map(\.version) == [second.version, first.version])
            #expect(history.changes.map(\.note) == [SettingsChangeNote(), note])
            #expect(history.changes.map(\.rules) == [rules, nil])
            #expect(history.reloads.map(\.reload.details) == [["one", "2"], ["one", "1"]])
            #expect(history.reloads.map(\.reload.isGood) == [true, false])
        }
    }

    /// Servers A and B read the same two changes. A records both changes before B records the first one.
    @Test(arguments: TestedDatabase.allCases)
    func `a change that a server records late is there once, and one that returns is there twice`(
        _ database: TestedDatabase
    ) async throws {
        try await database.with { store in
            var settings = Settings()
            let first = VersionedSettings(settings: settings, version: settings.version)
            settings.gracePeriodSeconds += 1
            let second = VersionedSettings(settings: settings, version: settings.version)
            let records: [(VersionedSettings, Int64)] = [(first, 0), (second, 100), (first, 5), (second, 105)]
            for (change, milliseconds) in records {
                _ = try await store.record(change, at: start.advanced(byMilliseconds: milliseconds))
            }
            #expect(try await store.settingsHistory(limit: 9).changes.map(\.version) == [second, first].map(\.version))
            _ = try await store.record(first, at: start.advanced(byMilliseconds: 200))
            #expect(try await store.count("settings_change") == 3)
        }
    }

    @Test(arguments: TestedDatabase.allCases)
    func `audit entries between two ids are counted by action and outcome`(_ database: TestedDatabase) async throws {
        try await database.with { store in
            #expect(try await store.newestAuditID() == 0)
            let ids = try await store.change { [start] db -> [Int64] in
                var ids: [Int64] = []
                for outcome in ["done", "done", "done", "refused", "unknown to this version", "done"] {
                    let id = try Int64.fetchOne(
                        db, sql: "INSERT INTO audit (at_ms, action, outcome) VALUES (?, 'refresh', ?) RETURNING id",
                        arguments: [start, outcome])
                    if let id { ids.append(id) }
                }
                return ids
            }
            try #require(ids.count == 6)
            #expect(try await store.newestAuditID() == ids[5])
            let counts = try await store.auditCounts(after: ids[0], through: ids[4])
            #expect(
                Set(counts) == [
                    AuditCount(action: .refresh, outcome: .done, count: 2),
                    AuditCount(action: .refresh, outcome: .refused, count: 1),
                ])
            #expect(try await store.auditCounts(after: ids[5], through: ids[5]) == [])
        }
    }

    @Test(arguments: TestedDatabase.allCases)
    func `instances are listed by name, and forgotten after a day`(_ database: TestedDatabase) async throws {
        try await database.with { store in
            let instance = { (name: String, hours: Int) in
                Instance(
                    name: name, version: "1", settingsVersion: "s", settings: ["A": "1", "B": "\"é"],
                    startedAt: start, heartbeatAt: start.advanced(bySeconds: hours * 3600))
            }
            for name in ["c", "a", "B"] { try await store.heartbeat(instance(name, 0)) }
            #expect(try await store.instances() == ["B", "a", "c"].map { instance($0, 0) })
            try await store.heartbeat(instance("a", 20))
            try await store.heartbeat(instance("a", 25))
            #expect(try await store.instances() == [instance("a", 25)])
            try await store.removeInstance("a", startedAt: start.advanced(bySeconds: 1))
            #expect(try await store.count("instance") == 1)
            try await store.removeInstance("a", startedAt: start)
            #expect(try await store.count("instance") == 0)
        }
    }

    @Test(arguments: TestedDatabase.allCases)
    func `counts are added up in every range, also of several servers, and deleted`(
        _ database: TestedDatabase
    ) async throws {
        try await database.with { store in
            let begin = start.floored(toSeconds: 7200)
            let minutes = (0..<30).map { minute in
                HistoryStep(beginsAt: begin.advanced(bySeconds: minute * 60), counts: ["a": 1, "b": minute])
            }
            try await withThrowingTaskGroup(of: Void.self) { group in
                for _ in 0..<3 { group.addTask { try await store.add(minutes, at: begin) } }
                try await group.waitForAll()
            }
            let hour = try await store.history(since: begin, in: .hour)
            #expect(hour.map(\.beginsAt) == minutes.map(\.beginsAt))
            #expect(hour.last?.counts == ["a": 3, "b": 87])
            for range in HistoryRange.allCases {
                let steps = try await store.history(since: begin, in: range)
                #expect(steps.reduce(0) { $0 + ($1.counts["a"] ?? 0) } == 90, "\(range)")
                #expect(steps.reduce(0) { $0 + ($1.counts["b"] ?? 0) } == 3 * 435, "\(range)")
            }
            try await store.add([], at: begin.advanced(bySeconds: 60 * 86_400))
            #expect(try await store.count("operation_count") == 0)
        }
    }
}
