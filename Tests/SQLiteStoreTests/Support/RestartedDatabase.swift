// A database that a test can close and reopen, or crash.

import Engine
import Identity
import JourneyModel
import Logging

@testable import SQLiteStore

/// Each restart replaces the store. After a crash, the new store opens a copy of the files.
final class RestartedDatabase {
    private let folder: ScratchFolder
    private var path = 0
    private let pace: RefoldPace
    private let digests: KeyedHashes?
    private let newestKeysMax: Int
    private(set) var store: SQLiteEventStore

    /// - Parameter newestKeysMax: the number of events in memory at which the store begins to move keys to `event_key`.
    init(
        pace: RefoldPace = RefoldPace(), digests: KeyedHashes? = nil, newestKeysMax: Int = NewestKeys.countMax
    ) throws {
        folder = try ScratchFolder(inMemory: true)
        self.pace = pace
        self.digests = digests
        self.newestKeysMax = newestKeysMax
        store = try Self.store(folder.file("0"), pace, digests, newestKeysMax)
    }

    private static func store(
        _ path: String, _ pace: RefoldPace, _ digests: KeyedHashes?, _ newestKeysMax: Int
    ) throws -> SQLiteEventStore {
        let pool = try DatabaseOpening.open(path: path, nowMilliseconds: 0)
        return try SQLiteEventStore(
            pool: pool, digests: digests, pace: pace, newestKeys: NewestKeys(countMax: newestKeysMax))
    }

    private func open() throws {
        store = try Self.store(folder.file("\(path)"), pace, digests, newestKeysMax)
    }

    func closeAndOpen() async throws {
        await store.close()
        try open()
    }

    func crashAndOpen() async throws {
        let crashed = store
        try folder.copyDatabase("\(path)", to: "\(path + 1)")
        path += 1
        try open()
        // Closing writes to the files. The crashed store is therefore closed after the copy.
        await crashed.close()
        folder.removeDatabase("\(path - 1)")
    }

    /// Refolds all drivers that must be refolded.
    func refoldAll() async throws {
        let part = try await store.refold(RefoldRequest(), within: .seconds(600))
        if let failure = part.failure { throw failure }
    }

    func storeDueExpiries(at now: Moment) async throws {
        let settings = VersionedSettings(settings: Settings(), version: Settings().version)
        let keeping = ExpiryScheduler(
            store: store, settings: CurrentSettings(settings), clock: { now }, logger: Logger(label: "test"))
        let failures = try await keeping.storeDueExpiries()
        if let failure = failures.first { throw failure }
    }
}
