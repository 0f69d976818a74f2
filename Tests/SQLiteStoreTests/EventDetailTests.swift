// Tests that the code handles a new optional member of an event as soon as the member is declared. The member is read
// from the request, stored in the row, and returned wherever the row is read.
//
// CONTRIBUTING.md, "A member of an event", lists the files to edit for a new member. NewMemberTests of the app counts
// these files.

import Engine
import GRDB
import JourneyModel
import TestSupport
import Testing

@testable import Identity
@testable import SQLiteStore

@Suite struct EventDetailTests {
    /// These members are declared only in this test.
    private static let details = [
        EventDetail("battery_level", .integer(0...100)), EventDetail("cell", .text(charactersMax: 8)),
        EventDetail("is_charging", .truth), EventDetail("network", .oneOf(["cellular", "wifi"])),
    ]

    private static let session = #""session_id":"s","charger_id":"c","sequence":4"#

    private func decoded(_ members: String, knowing details: [EventDetail] = details) throws -> EventSubmission {
        let comma = members.isEmpty ? "" : ","
        return try EventSubmission.decode(
            Array(
                #"{"event_id":"e","event":"enteredChargerIntentZone","occurred_at":"2026-11-16T20:00:00Z"\#(comma)\#(members)}"#
                    .utf8),
            route: .native, details: details)
    }

    private func errors(_ members: String) -> [FieldError] {
        do throws(BodyRefusal) {
            _ = try EventSubmission.decode(
                Array(
                    #"{"event_id":"e","event":"doneCharging","occurred_at":"2026-11-16T20:00:00Z",\#(members)}"#.utf8),
                route: .native, details: Self.details)
            return []
        } catch {
            guard case .invalid(let fields) = error else { return [] }
            return fields.errors
        }
    }

    @Test func `the list is in the order of names, and no name is another member's`() {
        let names = EventDetail.all.map(\.name)
        #expect(names == names.sorted() && Set(names).count == names.count)
        let known = [
            "schema_version", "event_id", "idempotency_key", "session_id", "charger_id", "merchant_id", "event",
            "occurred_at", "timestamp", "source", "app_state", "sequence", "metadata", "spelling", "received_at",
            "occurred_at_sent", "settings_version", "transition", "reason", "implied", "state", "ended_by",
        ]
        #expect(Set(names).isDisjoint(with: known))
    }

    @Test func `its value is read by its form, in one notation`() throws {
        #expect(try decoded("").details == nil)
        #expect(try decoded(#""battery_level":null,"other":1"#).details == nil)
        #expect(
            try decoded(#""network":"wifi","is_charging":false,"cell":"ü","battery_level":80.0"#).details
                == #"{"battery_level":80,"cell":"ü","is_charging":false,"network":"wifi"}"#)
        let plain = try decoded("", knowing: [])
        #expect(try decoded(#""battery_level":80"#, knowing: []) == plain, "unknown members are skipped")
        #expect(try decoded("").canonicalForm == plain.canonicalForm, "stored digests stay valid")
        #expect(
            errors(#""battery_level":101,"cell":"too long a text","is_charging":"no","network":4"#).map(\.pointer)
                == ["/battery_level", "/cell", "/is_charging", "/network"])
        #expect(errors(#""battery_level":101"#).map(\.detail) == ["must be an integer from 0 to 100"])
        #expect(errors(#""network":"fax""#).map(\.detail) == ["must be cellular or wifi"])
        #expect(throws: BodyRefusal.self) { try decoded(#""battery_level":1,"battery_level":1"#) }
    }

    @Test func `it is stored, compared, shown, exported, and deleted with its driver`() async throws {
        let fixture = try await AccountFixture()
        let caller = try await fixture.caller(fixture.signInWithApple("001.a"))
        let submission = try decoded(#""battery_level":80,\#(Self.session)"#)
        func append(_ submission: EventSubmission) async throws -> EventOutcome {
            try await fixture.store.appended(.sample(submission, of: caller.driver, receivedAt: .sample))
        }
        guard case .stored = try await append(submission) else { return #expect(Bool(false), "not stored") }
        guard case .replayed = try await append(submission) else { return #expect(Bool(false), "not a repeat") }
        #expect(try await append(try decoded(#""battery_level":81,\#(Self.session)"#)) == .keyReused)
        #expect(try await append(try decoded(Self.session)) == .keyReused)

        let details = #"{"battery_level":80}"#
        guard
            case .found(let timeline) = try await fixture.store.timeline(
                of: "s", of: caller.driver, limit: 9, after: nil)
        else { return #expect(Bool(false), "no timeline") }
        let expected = SentMembers(source: "ios_native", chargerID: "c", sequence: 4, details: details)
        #expect(timeline.events.map(\.sent) == [expected])
        #expect(try await fixture.store.storedEvents(after: 0, limit: 9).map(\.sent) == [expected])
        let piece = try await fixture.own.export(of: caller, from: .at(AccountFixture.start))
        #expect(String(decoding: piece.json, as: UTF8.self).contains(#""sequence":4,"battery_level":80,"#))

        _ = try await fixture.own.erase(caller, from: .at(AccountFixture.start))
        let left = try await fixture.store.storedEvents(after: 0, limit: 9).map(\.sent.details)
        #expect(left == [nil])
        await fixture.close()
    }

    @Test func `an event stored before the server knew the member has repeats with it`() async throws {
        let fixture = try await AccountFixture()
        let driver = DriverID("d")
        let before = try decoded(#""battery_level":80"#, knowing: [])
        let after = try decoded(#""battery_level":80"#)
        _ = try await fixture.store.appended(.sample(before, of: driver, receivedAt: .sample))
        guard case .replayed = try await fixture.store.appended(.sample(after, of: driver, receivedAt: .sample)) else {
            return #expect(Bool(false), "not a repeat for the writer")
        }
        guard case .replayed? = try await fixture.store.lookUp(after, of: driver) else {
            return #expect(Bool(false), "not a repeat for a reader")
        }
        await fixture.close()
    }
}
