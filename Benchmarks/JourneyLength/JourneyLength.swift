// Compares the time to store an event of a driver who has 10,000 events with that of a driver who has 10. The events
// arrive in order. The database is a file with synchronous=FULL. Run with `make bench-journeys`.

import Engine
import Foundation
import JourneyModel
import SQLiteStore

@main
struct JourneyLength {
    static let rounds = 40
    static let batchCount = 100
    static let short = 10
    static let long = 10_000

    static func main() async throws {
        let folder = FileManager.default.temporaryDirectory.appendingPathComponent("journey-length-\(UUID())")
        try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
        defer { try? FileManager.default.removeItem(at: folder) }
        let store = try SQLiteEventStore(path: folder.appendingPathComponent("db.sqlite3").path, nowMilliseconds: 0)

        for driver in 0..<rounds { try await append(store, "short-\(driver)", from: 0, count: short) }
        for start in stride(from: 0, to: long, by: 500) { try await append(store, "long", from: start, count: 500) }

        var shortTimes: [Duration] = []
        var longTimes: [Duration] = []
        let clock = ContinuousClock()
        for round in 0..<rounds {
            shortTimes.append(
                try await clock.measure {
                    try await append(store, "short-\(round)", from: short, count: batchCount)
                })
            longTimes.append(
                try await clock.measure {
                    try await append(store, "long", from: long + round * batchCount, count: batchCount)
                })
        }
        await store.close()
        report(shortTimes, longTimes)
    }

    /// Stores events in order. The driver enters and leaves the intent zone in turn, so each event changes the state.
    static func append(_ store: SQLiteEventStore, _ driver: String, from first: Int, count: Int) async throws {
        let settings = VersionedSettings(settings: Settings(), version: Settings().version)
        let requests = (first..<first + count).map { index in
            let at = Moment(millisecondsSinceEpoch: 1_800_000_000_000 + Int64(index) * 1000)
            let name: EventName = index % 2 == 0 ? .enteredChargerIntentZone : .exitedChargerIntentZone
            let key = "\(driver)-\(index)"
            return AppendRequest(
                driver: DriverID(driver),
                submission: EventSubmission(
                    name: name, spelling: name.canonical, eventID: key, idempotencyKey: key, occurredAt: at,
                    occurredAtText: RFC3339.text(of: at), sequence: Int64(index), canonicalForm: Array(key.utf8)),
                receivedAt: at, settings: settings)
        }
        for result in await store.append(requests) {
            guard case .stored(let event) = result, event.verdict == .applied else {
                throw NotInOrder()
            }
        }
    }

    struct NotInOrder: Error {}

    static func report(_ shortTimes: [Duration], _ longTimes: [Duration]) {
        func microsecondsPerEvent(_ times: [Duration]) -> Double {
            times.sorted()[times.count / 2] / .microseconds(batchCount)
        }
        let (short, long) = (microsecondsPerEvent(shortTimes), microsecondsPerEvent(longTimes))
        print("an event in order, in batches of \(batchCount), median of \(rounds) rounds in turn")
        print(String(format: "  journey of %6d events: %6.1f µs", Self.short, short))
        print(String(format: "  journey of %6d events: %6.1f µs, %.2f times", Self.long, long, long / short))
    }
}
