// Tests that the history of settings has one row for each change. Each note must be in the row of its change.

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
        // Version v2 is already stored. A restarted server or another server records it again.
        #expect(try await store.record(settings("v2"), note: ann, at: now.advanced(bySeconds: 2)))
        // The operator has not changed Ann's note, so it belongs only to v2. It must not be stored with v3 or v4.
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
