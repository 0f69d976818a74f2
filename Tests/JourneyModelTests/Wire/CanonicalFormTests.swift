// Tests of the canonical form of an event. If an event's idempotency key is already stored, the form decides whether
// the event is a repeat (contract, section 3, "What counts as a repeat").

import JourneyModel
import Testing

struct CanonicalFormTests {
    private func form(_ changes: [String: String?] = [:], sentAt: String? = nil) throws -> String {
        let submission = try EventDecodingTests.decode(changes, headers: EventHeaders(sentAt: sentAt))
        return String(decoding: submission.canonicalForm, as: UTF8.self)
    }

    @Test(
        "The same event written differently is the same",
        arguments: [
            ["timestamp": "\"2026-11-20T10:00:00Z\""], ["schema_version": "\"1.0\""], ["source": "\"ios_native\""],
            ["session_id": "null"], ["unknown": "1"], ["event": "\"charger_targeted\""],
            ["event_id": "\"\\u0065\\u0031\""], ["idempotency_key": "\"e1\""],
            ["occurred_at": "\"2026-11-20T09:02:10.000+01:00\""],
        ])
    func same(_ changes: [String: String]) throws {
        #expect(try form(changes) == form())
    }

    @Test(
        "An event that differs in any member is another",
        arguments: [
            ["event": "\"activationRejected\""], ["event": "\"ChargerTargeted\""], ["event_id": "\"E1\""],
            ["idempotency_key": "\"k\""], ["schema_version": "\"1.1\""], ["session_id": "\"s\""],
            ["charger_id": "\"c\""], ["merchant_id": "\"c\""], ["occurred_at": "\"2026-11-20T08:02:10.001Z\""],
            ["source": "\"web\""], ["app_state": "\"foreground\""], ["sequence": "0"], ["metadata": "{}"],
        ])
    func different(_ changes: [String: String]) throws {
        #expect(try form(changes) != form())
    }

    private func submission(_ changes: [String: String?]) throws -> EventSubmission {
        try EventDecodingTests.decode(changes, headers: EventHeaders())
    }

    /// An event's optional members. The tests change one member at a time, and fail if the canonical form lacks this
    /// member.
    private static let whole: [String: String?] = [
        "session_id": "\"s\"", "charger_id": "\"c\"", "merchant_id": "\"m\"", "source": "\"web\"", "sequence": "7",
        "app_state": "\"background\"", "schema_version": "\"1.2\"", "metadata": #"{"b":1,"a":{"d":2,"c":3}}"#,
    ]

    @Test(
        "A repeat may differ in app_state, schema_version, timestamp and the order of metadata",
        arguments: [
            ["app_state": "\"foreground\""], ["app_state": "null"], ["schema_version": "\"1.0\""],
            ["timestamp": "\"2026-11-20T10:00:00Z\""], ["metadata": #"{"a":{"c":3,"d":2},"b":1.0}"#],
            ["app_state": "\"foreground\"", "schema_version": "\"1.0\"", "metadata": #"{"a":{"c":3,"d":2},"b":1}"#],
        ])
    func rebuilt(_ changes: [String: String]) throws {
        let stored = try submission(Self.whole)
        let again = try submission(Self.whole.merging(changes.mapValues(Optional.some)) { $1 })
        let form = again.canonicalForm(appState: stored.appState, schemaVersion: stored.schemaVersion)
        #expect(form == stored.canonicalForm)
    }

    @Test(
        "Whatever says what happened, when, where and in which order may not differ",
        arguments: [
            ["event": "\"activationRejected\""], ["session_id": "\"t\""], ["session_id": "null"],
            ["charger_id": "\"d\""], ["charger_id": "null"], ["merchant_id": "\"n\""], ["merchant_id": "null"],
            ["occurred_at": "\"2026-11-20T08:02:10.001Z\""], ["source": "\"ios_native\""], ["sequence": "8"],
            ["sequence": "null"], ["event_id": "\"E1\""], ["metadata": #"{"b":1,"a":{"d":2,"c":4}}"#],
            ["metadata": #"{"b":1}"#], ["metadata": "null"],
        ])
    func another(_ changes: [String: String]) throws {
        let stored = try submission(Self.whole)
        for appState in ["\"foreground\"", "\"background\""] {
            var members = Self.whole.merging(changes.mapValues(Optional.some)) { $1 }
            members["app_state"] = .some(appState)
            let other = try submission(members)
            let form = other.canonicalForm(appState: stored.appState, schemaVersion: stored.schemaVersion)
            #expect(form != stored.canonicalForm, "\(changes) \(appState)")
        }
    }

    @Test("X-Sent-At changes with each attempt and does not count")
    func sendTime() throws {
        #expect(try form(sentAt: "2026-11-20T10:00:00Z") == form())
    }

    @Test("metadata: order, white space, escapes and notation of numbers do not count")
    func metadata() throws {
        let one = try form(["metadata": #"{"b":[1,2.50,0,-3e2,0.001],"a":{"y":"é","x":null}}"#])
        let same = try form(["metadata": #"{ "a": {"x":null, "y":"\u00e9"}, "b":[1.0, 25e-1, -0.0, -300, 1E-3] }"#])
        #expect(one == same)
        for other in [
            #"{"b":[2.5,1,0,-300,0.001],"a":{"y":"é","x":null}}"#, #"{"b":[1,2.5,0,300,0.001],"a":{"y":"é","x":null}}"#,
            #"{"b":[1,2.5,0,-300,0.001],"a":{"y":"é"}}"#, #"{"b":[1,2.5,0,-300,0.001],"a":{"y":"e\u0301","x":null}}"#,
            #"{"b":[1,2.5,"0",-300,0.001],"a":{"y":"é","x":null}}"#,
        ] {
            #expect(try form(["metadata": other]) != one, "\(other)")
        }
    }

    @Test(
        "Numbers are compared exactly, however long",
        arguments: [
            ("9007199254740993", "9007199254740992", false), ("1e400", "1e401", false), ("10e399", "1e400", true),
            ("1e99999999999999999999", "1e99999999999999999999", true), ("0e5", "0", true), ("100", "1e2", true),
            ("0.10", "1e-1", true), ("1e-0000000001", "0.1", false), ("123.456e3", "123456", true), ("-1", "1", false),
        ])
    func numbers(_ one: String, _ other: String, _ isSame: Bool) throws {
        let forms = try [one, other].map { try form(["metadata": "{\"n\":\($0)}"]) }
        #expect((forms[0] == forms[1]) == isSame)
    }

    @Test("The form is ASCII")
    func ascii() throws {
        let form = try form(["charger_id": "\"caf\u{E9}\"", "metadata": "{\"\u{1F642}\":\"\u{E9}\"}"])
        #expect(form.utf8.allSatisfy { (0x20..<0x7F).contains($0) })
        #expect(form.contains(#""charger_id":"caf\u00e9""#))
        #expect(form.contains(#"{"\ud83d\ude42":"\u00e9"}"#))
    }
}
