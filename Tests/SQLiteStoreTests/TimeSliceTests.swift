// Tests of time slices. A transaction accepts work for a limited time. After this time, the rest of a batch goes to the
// end of the queue.

import Engine
import GRDB
import JourneyModel
import TestSupport
import Testing

@testable import SQLiteStore

struct TimeSliceTests {
    private let folder: ScratchFolder
    private let store: SQLiteEventStore

    /// The time slices end at once, so each transaction stores one event.
    init() throws {
        folder = try ScratchFolder(inMemory: true)
        let pool = try DatabaseOpening.open(path: folder.file("db"), nowMilliseconds: 0)
        store = try SQLiteEventStore(pool: pool, timeSlice: .zero)
    }

    private func request(_ key: String, of driver: String) -> AppendRequest {
        .sample(.sample(.chargerTargeted, key: key), of: DriverID(driver))
    }

    @Test func `a batch that takes many turns is answered whole and in order`() async throws {
        _ = try await store.appended(request("k7", of: "a"))
        let outcomes = await store.append((0..<50).map { request("k\($0)", of: "a") })
        #expect(outcomes.count == 50)
        for (number, outcome) in outcomes.enumerated() {
            switch outcome {
            case .stored(let event): #expect(event.eventID == "k\(number)")
            case .replayed(let event): #expect(number == 7 && event.eventID == "k7")
            default: Issue.record("\(outcome)")
            }
        }
        #expect(try await store.eventCount() == 50)
        await store.close()
    }

    @Test func `somebody else's event does not wait for the end of a batch`() async throws {
        let batch = Task { await store.append((0..<3000).map { request("k\($0)", of: "a") }) }
        while try await store.eventCount() == 0 { await Task.yield() }
        _ = try await store.appended(request("mine", of: "b"))
        #expect(try await store.eventCount() < 3001)
        #expect(await batch.value.count == 3000)
        #expect(try await store.eventCount() == 3001)
        await store.close()
    }

    @Test func `a store that is closed finishes a batch that goes on`() async throws {
        let batch = Task { await store.append((0..<500).map { request("k\($0)", of: "a") }) }
        while try await store.eventCount() == 0 { await Task.yield() }
        await store.close()
        #expect(await batch.value.allSatisfy { if case .failed = $0 { false } else { true } })
    }
}
