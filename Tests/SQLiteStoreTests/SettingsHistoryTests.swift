// Tests that the history of the settings has one row for each change, with the note that belongs to that change.

import Engine
import JourneyModel
import SharedTables
import TestSupport
import Testing

@testable import SQLiteStore

@Suite struct SettingsHistoryTests {
    private func settings(_ version: String) -> VersionedSettings {
        VersionedSettings(settings: Settings(), version: version)
    }

    @Test func `a note stands with the change that it was written for`() async throws {
        let folder = try ScratchFolder()
        let store = try SQLiteEventStore(path: folder.file("db"), nowMilliseconds: 0)
        let now = Moment.sample
        let ann = SettingsChangeNote(changedBy: "Ann", reason: "false starts")
        #expect(try await store.record(settings("v1"), at: now))
        #expect(try await store.record(settings("v2"), note: ann, at: now.advanced(bySeconds: 1)))
        // Version v2 is in force already. This happens when another server has recorded it, or when this server
        // restarts.
        #expect(try await store.record(settings("v2"), note: ann, at: now.advanced(bySeconds: 2)))
        // The operator wrote no new note for v3 and v4, so neither version gets Ann's note for v2.
        #expect(try await !store.record(settings("v3"), note: ann, at: now.advanced(bySeconds: 3)))
        #expect(try await !store.record(settings("v4"), note: ann, at: now.advanced(bySeconds: 4)))
        let back = SettingsChangeNote(changedBy: "Ann", reason: "back")
        #expect(try await store.record(settings("v5"), note: back, at: now.advanced(bySeconds: 5)))
        let changes = try await store.settingsHistory(limit: 10).changes
        #expect(changes.map(\.version) == ["v5", "v4", "v3", "v2", "v1"])
        let nothing = SettingsChangeNote()
        #expect(changes.map(\.note) == [back, nothing, nothing, ann, nothing])
        #expect(changes[3].at == now.advanced(bySeconds: 1))
        #expect(try await store.settingsHistory(limit: 2).changes.map(\.version) == ["v5", "v4"])
        await store.close()
    }
}
