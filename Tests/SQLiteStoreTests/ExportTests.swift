// Tests of a large export from a real file, which is read in pieces. Together the pieces form a valid document, even if
// the data changes between two reads.

import Engine
import GRDB
import JourneyModel
import TestSupport
import Testing

@testable import Identity
@testable import SQLiteStore
@testable import SharedTables

struct ExportTests {
    private let start = AccountFixture.start

    /// Creates a driver with this many events of 8 KiB each.
    private func driver(_ fixture: AccountFixture, _ tag: String, events: Int) async throws -> Caller {
        let caller = try await fixture.caller(fixture.signInWithApple("001.\(tag)"))
        for number in 0..<events {
            try await store(fixture, "\(tag)-\(number)", at: start.advanced(byMilliseconds: Int64(number)), of: caller)
        }
        return caller
    }

    private func store(_ fixture: AccountFixture, _ key: String, at: Moment, of caller: Caller) async throws {
        let text = String(repeating: "x", count: 8000)
        let submission = EventSubmission.sample(.chargerTargeted, key: key, at: at, metadata: #"{"text":"\#(text)"}"#)
        _ = try await fixture.store.appended(.sample(submission, of: caller.driver, receivedAt: at))
    }

    /// Returns the ids of the events in a complete document.
    private func keys(_ document: [UInt8]) throws -> [String] {
        guard case .array(let events)? = try JSONValue.parse(document)["events"] else { return [] }
        return events.map { event in
            if case .string(let key)? = event["event_id"] { key } else { "" }
        }
    }

    @Test func `its pieces are short, and together one document with each event once`() async throws {
        let fixture = try await AccountFixture()
        let caller = try await driver(fixture, "much", events: 100)
        _ = try await driver(fixture, "other", events: 3)
        var piece = try await fixture.own.export(of: caller, from: .at(start))
        var pieces = [piece.json]
        // This driver's second export begins only after the first one is read completely. Another driver can export at
        // the same time.
        await #expect(throws: AccountFailure.exportUnderWay(retryAfterSeconds: 10)) {
            try await fixture.own.export(of: caller, from: .at(start))
        }
        _ = try await fixture.own.export(of: Caller(driver: DriverID("x")), from: .at(start))
        try await store(fixture, "late", at: start.advanced(byMilliseconds: 1000), of: caller)
        while let rest = piece.rest {
            piece = try await rest()
            pieces.append(piece.json)
        }
        #expect(pieces.count == 4)
        for piece in pieces { #expect(piece.count < AccountExport.pieceBytesMin + 10_000) }
        let stored = (0..<100).map { "much-\($0)" }
        #expect([stored, stored + ["late"]].contains(try keys(Array(pieces.joined()))))
        #expect(try await fixture.own.export(of: caller, from: .at(start)).rest != nil, "the place was given back")
        await fixture.close()
    }

    @Test func `no event is exported twice if retention deletes the last one that was exported`() async throws {
        let fixture = try await AccountFixture()
        let caller = try await driver(fixture, "aging", events: 100)
        try await store(fixture, "late", at: start.advanced(byMilliseconds: 10), of: caller)
        var piece = try await fixture.own.export(of: caller, from: .at(start))
        var pieces = [piece.json]
        let aged = try await fixture.store.read { db in
            try Row.fetchAll(
                db, sql: "SELECT id, driver, corrected_at_ms FROM event WHERE id <= 60 ORDER BY corrected_at_ms"
            ).map { AgedEvent(id: $0[0], driver: $0[1], correctedAt: Moment(millisecondsSinceEpoch: $0[2])) }
        }
        #expect(try await fixture.store.delete(aged[...]) == 60)
        while let rest = piece.rest {
            piece = try await rest()
            pieces.append(piece.json)
        }
        let exported = try keys(Array(pieces.joined()))
        #expect(Set(exported).count == exported.count && exported.contains("late"))
        #expect(exported.suffix(40) == (60..<100).map { "aging-\($0)" })
        await fixture.close()
    }

    @Test func `a driver deleted in the middle of it gets no end, whoever has come since`() async throws {
        let fixture = try await AccountFixture()
        let caller = try await driver(fixture, "leaving", events: 100)
        let first = try await fixture.own.export(of: caller, from: .at(start))
        let rest = try #require(first.rest)
        _ = try await fixture.own.erase(caller, from: .at(start))
        _ = try await driver(fixture, "coming", events: 100)
        await #expect(throws: AccountFailure.unauthorized) { try await rest() }
        await fixture.close()
    }
}
