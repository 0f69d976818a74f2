// Tests that `event` returns every column as the client sent it. The store keeps some columns in a smaller form.

import Engine
import Foundation
import GRDB
import JourneyModel
import TestSupport
import Testing

@testable import SQLiteStore

struct LeanColumnsTests {
    private static let uuid = "0f8fad5b-d9cb-469f-a165-70867728950e"

    @Test(arguments: [
        (uuid, 16), (uuid.uppercased(), 17), ("01234567-0123-0123-0123-012345678901", 16),
        ("0F8fad5b-d9cb-469f-a165-70867728950e", nil), ("0f8fad5bd9cb-469f-a165-70867728950e-", nil),
        ("0f8fad5b-d9cb-469f-a165-70867728950g", nil), ("{0f8fad5b-d9cb-469f-a165-70867728950e}", nil),
        ("-f8fad5b-d9cb-469f-a165-70867728950e", nil), ("0f8fad5b-d9cb-469f-a165-7086772895-e", nil), ("k", nil),
        ("", nil), ("12", nil), ("§service/0f8fad5b-d9cb-469f-a165-70867728950e", nil),
    ])
    func `a key reads back as it was sent`(_ key: String, _ blobBytes: Int?) throws {
        let stored = StoredKey(key)
        #expect(stored.withBytes(\.count) == blobBytes ?? key.utf8.count)
        #expect(stored.isUUID == (blobBytes != nil))
        try withEvents { db in
            try insert(db, key: stored)
            #expect(try String.fetchOne(db, sql: "SELECT idempotency_key FROM event") == key)
        }
    }

    @Test func `a time reads back as it was sent`() throws {
        var random = SeededRandom(seed: 7)
        try withEvents { db in
            for _ in 0..<3000 {
                let milliseconds =
                    Bool.random(using: &random)
                    ? Int64.random(in: -62_167_219_200_000...253_402_300_799_999, using: &random)
                    : Int64.random(in: -1_000_000...2_000_000_000_000, using: &random)
                try expectSame(RFC3339.text(of: Moment(millisecondsSinceEpoch: milliseconds)), stored: .some(nil), db)
                let second = Moment(millisecondsSinceEpoch: milliseconds).floored(toSeconds: 1)
                guard second.millisecondsSinceEpoch >= -62_167_219_200_000 else { continue }
                try expectSame(RFC3339.text(of: second).replacingOccurrences(of: ".000", with: ""), stored: "", db)
            }
            for odd in [
                "2026-01-31t08:00:00.000Z", "2026-01-31T08:00:00.000z", "2026-01-31T08:00:00.00Z",
                "2026-01-31T08:00:00.0000Z", "2026-01-31T08:00:00.0009Z", "2026-01-31T09:00:00+01:00",
                "2026-01-31T08:00:00-00:00", "2016-12-31T23:59:60Z", "2016-12-31T23:59:60.000Z", "2026-01-31T08:00:00z",
                "2026-01-31T08:00:00.1+00:00",
            ] { try expectSame(odd, stored: odd, db) }
        }
        // A text that denotes another moment is kept unchanged.
        let text = "2026-01-31T08:00:00.000Z"
        #expect(OccurredAtColumn.text(text, at: Moment(millisecondsSinceEpoch: 5)) == text)
    }

    private func expectSame(_ text: String, stored expected: String??, _ db: Database) throws {
        let moment = try #require(RFC3339.moment(from: text), "\(text)")
        let stored = OccurredAtColumn.text(text, at: moment)
        if let expected { #expect(stored == expected, "\(text)") }
        try db.execute(sql: "DELETE FROM event_row")
        try insert(db, occurredAt: moment, text: stored)
        let row = try #require(try Row.fetchOne(db, sql: "SELECT occurred_at, occurred_at_ms FROM event"))
        #expect(row[0] == text)
        #expect(row[1] == moment.millisecondsSinceEpoch)
    }

    private func withEvents(_ body: (Database) throws -> Void) throws {
        let folder = try ScratchFolder()
        try DatabaseOpening.open(path: folder.file("db"), nowMilliseconds: 0).close()
        try DatabaseQueue(path: folder.file("db")).write(body)
    }

    private func insert(
        _ db: Database, key: StoredKey = StoredKey("k"), occurredAt: Moment = .sample, text: String? = nil
    ) throws {
        let corrected = occurredAt.advanced(byMilliseconds: 86_399_999)
        try db.execute(
            sql: """
                INSERT INTO event_row (driver, corrected_at_ms, kind, settings_version, received_offset_ms, transition,
                    implied, after_state, key, digest, occurred_offset_ms, occurred_at_text, skew_ms)
                VALUES (1, ?, 1, 1, 0, 0, 0, 0, ?, zeroblob(16), ?, ?, 0)
                """,
            arguments: [
                corrected.millisecondsSinceEpoch, key.databaseValue, occurredAt.milliseconds(since: corrected), text,
            ])
    }

    @Test func `what the store writes reads back, with every combination of clocks and texts`() async throws {
        let folder = try ScratchFolder()
        let store = try SQLiteEventStore(path: folder.file("db"), nowMilliseconds: 0)
        var expected: [[DatabaseValue]] = []
        let receivedAt = Moment.sample.advanced(bySeconds: 3)
        for (index, key) in [Self.uuid, Self.uuid.uppercased(), "a key"].enumerated() {
            for sentAgo in [nil, 0, 1500, -200_000, 90_000_000] as [Int64?] {
                for stampAgo in [nil, 700] as [Int64?] {
                    let sentAt = sentAgo.map { receivedAt.advanced(byMilliseconds: -$0) }
                    let timestamp = stampAgo.map { receivedAt.advanced(byMilliseconds: -$0) }
                    var event = EventSubmission.sample(
                        .chargerTargeted, key: key, charger: "c",
                        at: .sample.advanced(byMilliseconds: Int64(index * 777)))
                    event.occurredAtText = index == 2 ? "odd" : RFC3339.text(of: event.occurredAt)
                    (event.sentAt, event.timestamp) = (sentAt, timestamp)
                    let driver = DriverID("d\(expected.count)")
                    _ = try await store.appended(.sample(event, of: driver, receivedAt: receivedAt))
                    #expect(try await store.lookUp(event, of: driver) != nil)
                    let sendTime = event.sendTime
                    expected.append([
                        driver.rawValue.databaseValue, key.databaseValue, event.occurredAtText.databaseValue,
                        event.occurredAt.millisecondsSinceEpoch.databaseValue,
                        receivedAt.millisecondsSinceEpoch.databaseValue,
                        sendTime?.millisecondsSinceEpoch.databaseValue ?? .null,
                        (sentAt == nil ? nil : timestamp)?.millisecondsSinceEpoch.databaseValue ?? .null,
                    ])
                }
            }
        }
        let rows = try await store.read { db in
            try Row.fetchAll(
                db,
                sql: """
                    SELECT driver_id, idempotency_key, occurred_at, occurred_at_ms, received_at_ms, sent_at_ms,
                        timestamp_ms
                    FROM event JOIN driver ON driver.id = event.driver ORDER BY event.id
                    """
            ).map { row in Array(row.databaseValues) }
        }
        #expect(rows == expected)
        await store.close()
    }
}
