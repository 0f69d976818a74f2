// Tests that the store keeps every member of an event (contract, section 3). The tests read rows with plain SQL.

import Engine
import GRDB
import JourneyModel
import TestSupport
import Testing

@testable import SQLiteStore

struct StoredMembersTests {
    @Test func `a row has all three times, the spelling, the settings and the metadata`() async throws {
        let folder = try ScratchFolder()
        let pool = try DatabaseOpening.open(path: folder.file("db"), nowMilliseconds: 0)
        let store = try SQLiteEventStore(pool: pool)
        let received = Moment.sample.advanced(bySeconds: 7200)
        var submission = EventSubmission.sample(
            .departedCharger, key: "key", eventID: "event", session: "session", charger: "charger",
            merchant: "merchant", at: .sample, sentAt: .sample, sequence: 7, source: "android_native",
            metadata: #"{"a":1}"#)
        submission.spelling = "departed_charger"
        _ = try await store.appended(.sample(submission, of: DriverID("driver"), receivedAt: received))
        let row = try await pool.read { db in
            try Row.fetchOne(
                db,
                sql: """
                    SELECT driver_id, session_id, name, spelling, source, app_state, schema_version, event_id,
                        idempotency_key, (SELECT place_id FROM place WHERE id = event.charger) AS charger_id,
                        (SELECT place_id FROM place WHERE id = event.merchant) AS merchant_id, occurred_at,
                        occurred_at_ms, corrected_at_ms, skew_ms, sent_at_ms, received_at_ms, sequence, metadata, version
                    FROM event JOIN driver ON driver.id = event.driver JOIN session ON session.id = event.session
                    JOIN event_kind ON event_kind.id = event.kind
                    JOIN settings_version ON settings_version.id = event.settings_version
                    """
            ).map { row in Dictionary(uniqueKeysWithValues: row.map { ($0, $1) }) }
        }
        let sample = Moment.sample.millisecondsSinceEpoch
        let expected: [String: any DatabaseValueConvertible] = [
            "driver_id": "driver", "session_id": "session", "name": "exitedChargerAnchorZone",
            "spelling": "departed_charger", "source": "android_native", "app_state": "background",
            "schema_version": "1.0", "event_id": "event", "idempotency_key": "key", "charger_id": "charger",
            "merchant_id": "merchant", "occurred_at": submission.occurredAtText, "occurred_at_ms": sample,
            "corrected_at_ms": sample + 7_200_000, "skew_ms": 7_200_000, "sent_at_ms": sample,
            "received_at_ms": sample + 7_200_000, "sequence": 7, "metadata": #"{"a":1}"#,
            "version": Settings().version,
        ]
        #expect(row == expected.mapValues(\.databaseValue))
        await store.close()
    }

    @Test func `the view for people spells every code as the wire does`() async throws {
        let folder = try ScratchFolder()
        let pool = try DatabaseOpening.open(path: folder.file("db"), nowMilliseconds: 0)
        let store = try SQLiteEventStore(pool: pool)
        var random = SeededRandom(seed: 7)
        let received = Moment.sample.advanced(bySeconds: 7200)
        for submission in SampleJourney.random(count: 600, prefix: "k", using: &random) {
            _ = try await store.appended(.sample(submission, of: DriverID("d"), receivedAt: received))
        }
        let timeline = try await store.timeline(of: DriverID("d"))
        let expected = timeline.map { entry in
            [
                entry.idempotencyKey, entry.verdict.transition.rawValue, entry.verdict.reason?.rawValue ?? "-",
                entry.state.rawValue,
            ]
        }
        let shown = try await pool.read { db in
            try Row.fetchAll(
                db,
                sql: """
                    SELECT idempotency_key, event_timeline.transition, coalesce(event_timeline.reason, '-'), state_after
                    FROM event_timeline JOIN event USING (id)
                    """
            ).map { row in (0..<4).map { row[$0] as String } }
        }
        #expect(Set(shown) == Set(expected))
        #expect(Set(timeline.map(\.state)).count == JourneyState.allCases.count, "the sample is too tame to show all")
        await store.close()
    }

    @Test(arguments: JourneyState.allCases) func `a state's code reads back`(_ state: JourneyState) {
        #expect(JourneyState(code: state.code) == state)
    }

    @Test(arguments: Verdict.Reason.allCases) func `a reason's code reads back`(_ reason: Verdict.Reason) {
        #expect(Verdict.Reason(code: reason.code) == reason)
    }

    /// Swift compares canonically equivalent Strings as equal. Chargers are compared by bytes, so these texts are
    /// different chargers.
    @Test func `a charger is known by its bytes`() async throws {
        let folder = try ScratchFolder()
        let store = try SQLiteEventStore(path: folder.file("db"), nowMilliseconds: 0)
        for (key, charger) in [("1", "caf\u{E9}"), ("2", "cafe\u{301}"), ("3", "caf\u{E9}")] {
            let outcome = try await store.appended(
                .sample(.sample(.chargerTargeted, key: key, charger: charger), of: DriverID("d\(key)")))
            guard case .stored(let event) = outcome else {
                Issue.record("\(outcome)")
                continue
            }
            #expect(event.journey.targetChargerID?.utf8.elementsEqual(charger.utf8) == true)
        }
        await store.close()
    }
}
