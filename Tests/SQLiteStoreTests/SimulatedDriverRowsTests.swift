// Tests of the drivers of `dwell simulate`. Counts must not include them, and their removal must delete all their rows.

import Engine
import GRDB
import JourneyModel
import TestSupport
import Testing

@testable import SQLiteStore

struct SimulatedDriverRowsTests {
    private let folder: ScratchFolder

    init() throws { folder = try ScratchFolder(inMemory: true) }

    private func fill(_ store: SQLiteEventStore, _ drivers: [String]) async throws {
        for name in drivers {
            for event in SampleJourney.whole(prefix: name, session: "session-\(name)") {
                _ = try await store.appended(.sample(event, of: DriverID(name)))
            }
        }
    }

    @Test func `the prefix is theirs alone`() {
        #expect(DriverID("simulated-1x-driver-0").isSimulated)
        for id in ["simulated", "drv_simulated-", "Simulated-1", "simulatedx"] { #expect(!DriverID(id).isSimulated) }
    }

    @Test func `the operator's figures leave them out`() async throws {
        let store = try SQLiteEventStore(path: folder.file("db"), nowMilliseconds: 0)
        try await fill(store, ["simulated-a", "b", "simulated-c"])
        #expect(try await store.driverCounts().values.reduce(0, +) == 1)
        let tallies = try await store.tallies(after: 0, since: Moment(millisecondsSinceEpoch: 0))
        #expect(tallies.tallies.reduce(0) { $0 + $1.count } == 8)
        await store.close()
    }

    @Test func `removing them takes all of theirs and nothing of others`() async throws {
        let path = folder.file("db")
        let server = try SQLiteEventStore(path: path, nowMilliseconds: 0)
        try await fill(server, ["a", "simulated-1", "simulated-2", "z"])
        // The consumer has read all 8 events of driver a and two events of simulated-1.
        try await server.move("analytics", to: 10, losing: 0, at: .sample)
        let command = try SQLiteEventStore(existing: path, digests: nil)
        #expect(
            try await command.removeSimulatedDrivers(driversMax: 1) == SimulatedDriversRemoved(drivers: 1, events: 8))
        #expect(
            try await command.removeSimulatedDrivers(driversMax: 16) == SimulatedDriversRemoved(drivers: 1, events: 8))
        #expect(
            try await command.removeSimulatedDrivers(driversMax: 16) == SimulatedDriversRemoved(drivers: 0, events: 0))
        await command.close()
        // Another process has removed the rows. If the server still had the driver in its cache, this new driver would
        // continue the old journey.
        try await fill(server, ["simulated-2"])
        #expect(try await server.eventCount() == 24)
        // The consumer has not read 14 of the 16 removed events. When it passes the gap in the ids, it adds these 14 to
        // its lost events. The removal subtracts them in advance.
        #expect(try await server.position(of: "analytics").lostCount == -14)
        await server.close()
        let check = try DatabaseCheck(path: path)
        #expect(try check.run { _ in }.problems == [])
        check.close()
    }

    @Test func `every table that refers to a driver is emptied`() async throws {
        let store = try SQLiteEventStore(path: folder.file("db"), nowMilliseconds: 0)
        let referring = try await store.read { db in
            try String.fetchAll(
                db,
                sql: """
                    SELECT DISTINCT entry.name FROM sqlite_schema AS entry, pragma_foreign_key_list(entry.name) AS reference
                    WHERE entry.type = 'table' AND reference."table" = 'driver' ORDER BY 1
                    """)
        }
        // `event_row` has no foreign keys.
        #expect(
            (referring + ["event_row"]).sorted()
                == (SimulatedDriverRows.tables + SimulatedDriverRows.tablesWithoutDriver).sorted())
        await store.close()
    }
}
