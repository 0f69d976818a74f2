// Tests of the decoding of one event (contract, section 3): the table of fields, the defaults, and the errors. All
// errors are reported at once, each with a pointer to the wrong member.

import JourneyModel
import Testing

struct EventDecodingTests {
    /// Returns the body of a valid pre-session event. `changes` replaces members; nil removes a member.
    static func body(_ changes: [String: String?] = [:]) -> [UInt8] {
        var members: [String: String?] = [
            "event_id": #""e1""#, "event": #""chargerTargeted""#, "occurred_at": #""2026-11-20T08:02:10Z""#,
            "timestamp": #""2026-11-20T08:59:57Z""#,
        ]
        for (name, value) in changes { members[name] = .some(value) }
        let texts = members.compactMap { name, value in value.map { "\"\(name)\":\($0)" } }
        return Array("{\(texts.joined(separator: ","))}".utf8)
    }

    static func pointers(
        _ changes: [String: String?], route: EventRoute = .native, headers: EventHeaders = EventHeaders()
    ) -> Set<String> {
        do throws(BodyRefusal) {
            _ = try EventSubmission.decode(body(changes), route: route, headers: headers)
            return []
        } catch {
            guard case .invalid(let fields) = error else { return ["malformed"] }
            return Set(fields.errors.map(\.pointer))
        }
    }

    static func decode(
        _ changes: [String: String?] = [:], route: EventRoute = .native, headers: EventHeaders = EventHeaders()
    ) throws -> EventSubmission {
        try EventSubmission.decode(body(changes), route: route, headers: headers)
    }

    @Test("Every member is read")
    func everything() throws {
        let submission = try Self.decode([
            "schema_version": #""1.3""#, "idempotency_key": #""k 1~""#, "session_id": #""exs_ä""#,
            "charger_id": #""c1""#, "merchant_id": #""m1""#, "event": #""departed_charger""#,
            "occurred_at": #""2026-11-20T09:02:10.5009+01:00""#, "source": #""android_native""#,
            "app_state": #""background""#, "sequence": "9223372036854775807",
            "metadata": #"{ "b" : [1.50, null], "a":"\u00e9" }"#, "unknown": "[{}]",
        ])
        #expect(submission.name == .departedCharger)
        #expect(submission.spelling == "departed_charger")
        #expect(submission.schemaVersion == "1.3")
        #expect(submission.eventID == "e1")
        #expect(submission.idempotencyKey == "k 1~")
        #expect(submission.sessionID == "exs_ä")
        #expect(submission.chargerID == "c1")
        #expect(submission.merchantID == "m1")
        #expect(submission.occurredAt == RFC3339.moment(from: "2026-11-20T08:02:10.500Z"))
        #expect(submission.occurredAtText == "2026-11-20T09:02:10.5009+01:00")
        #expect(submission.sentAt == nil)
        #expect(submission.timestamp == RFC3339.moment(from: "2026-11-20T08:59:57Z"))
        #expect(submission.source == "android_native")
        #expect(submission.appState == "background")
        #expect(submission.sequence == .max)
        #expect(submission.metadata == "{\"b\":[1.50,null],\"a\":\"é\"}")
    }

    @Test("Defaults, and null is absence for every optional member")
    func defaults() throws {
        let optional = [
            "schema_version", "idempotency_key", "session_id", "charger_id", "merchant_id", "timestamp", "source",
            "app_state", "sequence", "metadata",
        ]
        let absent = try Self.decode(["timestamp": nil])
        let nulls: [String: String?] = Dictionary(uniqueKeysWithValues: optional.map { ($0, "null") })
        let null = try Self.decode(nulls)
        #expect(absent == null)
        #expect(absent.schemaVersion == "1.0")
        #expect(absent.source == "ios_native")
        #expect(absent.idempotencyKey == "e1")
        #expect(absent.sentAt == nil)
        #expect(absent.sessionID == nil && absent.chargerID == nil && absent.merchantID == nil)
        #expect(absent.appState == nil && absent.metadata == nil)
        #expect(absent.sequence == nil)
    }

    @Test(
        "One bad member, one pointer",
        arguments: [
            ("schema_version", "\"2.0\""), ("schema_version", "\"1\""), ("schema_version", "1.0"),
            ("schema_version", "\"1.x\""), ("schema_version", "\"\""), ("schema_version", "\"10.0\""),
            ("event_id", "\"\""), ("event_id", "7"), ("event_id", "\"caf\u{E9}\""), ("event_id", "\"a\\tb\""),
            ("idempotency_key", "\"\""), ("idempotency_key", "\"\\u007f\""), ("idempotency_key", "{}"),
            ("session_id", "\"\""), ("session_id", "\"a\\u0000b\""), ("session_id", "false"), ("session_id", "[]"),
            ("charger_id", "\"a\\nb\""), ("charger_id", "12"), ("charger_id", "\"\""),
            ("merchant_id", "\"\\u0085\""), ("merchant_id", "true"),
            ("event", "\"9lives\""), ("event", "\"\""), ("event", "7"), ("event", "null"), ("event", "\"a b\""),
            ("occurred_at", "\"2026-11-20T08:02:10\""), ("occurred_at", "\"yesterday\""), ("occurred_at", "1763625730"),
            ("occurred_at", "null"), ("occurred_at", "\"2026-02-30T08:02:10Z\""),
            ("timestamp", "\"2026-11-20\""), ("timestamp", "5"),
            ("source", "\"server\""), ("source", "\"\""), ("source", "[]"), ("source", "\"a\\rb\""),
            ("app_state", "\"asleep\""), ("app_state", "1"),
            ("sequence", "-1"), ("sequence", "1.5"), ("sequence", "\"1\""), ("sequence", "9223372036854775808"),
            ("sequence", "true"), ("sequence", "1e30"), ("sequence", "1.5e0"), ("sequence", "9.3e18"),
            ("metadata", "[]"), ("metadata", "\"{}\""), ("metadata", "3"),
        ])
    func oneBadMember(_ name: String, _ value: String) {
        #expect(Self.pointers([name: value]) == ["/\(name)"])
    }

    @Test("All errors come at once, each place once")
    func allAtOnce() {
        let pointers = Self.pointers([
            "schema_version": "\"3.1\"", "event_id": "\"\"", "event": "\"departed_charger\"", "occurred_at": "null",
            "source": "\"server\"", "sequence": "-1", "metadata": "[]", "charger_id": "0",
        ])
        #expect(
            pointers == [
                "/schema_version", "/event_id", "/session_id", "/occurred_at", "/source", "/sequence", "/metadata",
                "/charger_id",
            ])
    }

    @Test("A body that is no object says so once; one that is no JSON says where")
    func notAnObject() throws {
        for text in ["[]", "null", "\"x\"", "7"] {
            let refusal = #expect(throws: BodyRefusal.self) {
                try EventSubmission.decode(Array(text.utf8), route: .v1Session)
            }
            let error = FieldError(pointer: "", detail: "must be a JSON object")
            #expect(refusal == .invalid(InvalidFields([error])))
        }
        #expect(throws: BodyRefusal.malformedJSON(JSONError(.unexpectedEnd, offset: 1))) {
            try EventSubmission.decode(Array("{".utf8), route: .native)
        }
    }

    @Test("Texts have 1 to 128 characters, counted as characters and not as bytes")
    func lengths() {
        for name in ["session_id", "charger_id", "merchant_id", "source"] {
            #expect(Self.pointers([name: "\"\(String(repeating: "ä", count: 128))\""]) == [], "\(name)")
            #expect(Self.pointers([name: "\"\(String(repeating: "ä", count: 129))\""]) == ["/\(name)"])
        }
        for name in ["event_id", "idempotency_key"] {
            #expect(Self.pointers([name: "\"\(String(repeating: "k", count: 128))\""]) == [], "\(name)")
            #expect(Self.pointers([name: "\"\(String(repeating: "k", count: 129))\""]) == ["/\(name)"])
        }
    }

    @Test("metadata holds any JSON up to 8 KiB, white space not counted")
    func metadataSize() throws {
        let value = String(repeating: "x", count: 8192 - #"{"a":""}"#.utf8.count)
        #expect(try Self.decode(["metadata": "{ \"a\" : \"\(value)\" }"]).metadata?.utf8.count == 8192)
        #expect(Self.pointers(["metadata": "{\"a\":\"\(value)x\"}"]) == ["/metadata"])
        #expect(try Self.decode(["metadata": #"{"a":"\u0000\n"}"#]).metadata == #"{"a":"\u0000\n"}"#)
        #expect(try Self.decode(["metadata": "{}"]).metadata == "{}")
    }

    // MARK: Keys

    @Test("event_id and the idempotency key stand in for each other; the header serves too")
    func keys() throws {
        let none: String? = nil
        let onlyKey = try Self.decode(["event_id": none, "idempotency_key": "\"k\""])
        #expect([onlyKey.eventID, onlyKey.idempotencyKey] == ["k", "k"])
        let onlyHeader = try Self.decode(["event_id": none], headers: EventHeaders(idempotencyKey: "h"))
        #expect([onlyHeader.eventID, onlyHeader.idempotencyKey] == ["h", "h"])
        let headerAndID = try Self.decode(headers: EventHeaders(idempotencyKey: "h"))
        #expect([headerAndID.eventID, headerAndID.idempotencyKey] == ["e1", "h"])
        let agreeing = try Self.decode(["idempotency_key": "\"h\""], headers: EventHeaders(idempotencyKey: "h"))
        #expect(agreeing.idempotencyKey == "h")
        let quoted = try Self.decode(["idempotency_key": "\"h\""], headers: EventHeaders(idempotencyKey: "\"h\""))
        #expect(quoted.idempotencyKey == "h")
        let quotesInTheKey = try Self.decode(
            ["idempotency_key": #""\"h\"""#], headers: EventHeaders(idempotencyKey: "\"h\""))
        #expect(quotesInTheKey.idempotencyKey == "\"h\"")
        let onlyQuotes = try Self.decode(
            ["idempotency_key": #""\"\"""#], headers: EventHeaders(idempotencyKey: "\"\""))
        #expect(onlyQuotes.idempotencyKey == "\"\"")
        #expect(Self.pointers(["event_id": none]) == ["/idempotency_key"])
    }

    @Test("Keys that differ, or a header that is no key, are errors of the header")
    func keyConflicts() {
        let body: [String: String?] = ["idempotency_key": "\"k\""]
        #expect(Self.pointers(body, headers: EventHeaders(idempotencyKey: "K")) == ["Idempotency-Key"])
        for header in ["", "\"\"", "caf\u{E9}", String(repeating: "k", count: 129)] {
            #expect(Self.pointers([:], headers: EventHeaders(idempotencyKey: header)) == ["Idempotency-Key"])
        }
    }

    @Test("X-Sent-At goes before timestamp, and must be a time")
    func sentAt() throws {
        let headers = EventHeaders(sentAt: "2026-11-20T09:00:00.250Z")
        #expect(try Self.decode(headers: headers).sentAt == RFC3339.moment(from: "2026-11-20T09:00:00.250Z"))
        #expect(Self.pointers([:], headers: EventHeaders(sentAt: "now")) == ["X-Sent-At"])
    }

    // MARK: Sessions and routes

    @Test("A session event needs its session, in both spellings")
    func sessionRequired() {
        for name in EventName.listed where name.requiresSession && name != .departedCharger {
            #expect(Self.pointers(["event": "\"\(name.canonical)\""]) == ["/session_id"], "\(name)")
            #expect(Self.pointers(["event": "\"\(name.v1Spelling)\""]) == ["/session_id"], "\(name)")
        }
        #expect(Self.pointers(["event": "\"departed_charger\""]) == ["/session_id"])
        #expect(Self.pointers(["event": "\"anchor_lost\"", "session_id": "\"s\""]) == ["/session_id"])
    }

    @Test("The v1 routes demand and refuse session_id, and demand timestamp")
    func routes() throws {
        let session = ["event": "\"visit_verified\"", "session_id": "\"s\""]
        #expect(try Self.decode(session, route: .v1Session).name == .visitVerifiedByWeb)
        #expect(try Self.decode(route: .v1PreSession).name == .chargerTargeted)
        #expect(Self.pointers([:], route: .v1Session) == ["/session_id"])
        #expect(Self.pointers(session, route: .v1PreSession) == ["/session_id"])
        #expect(Self.pointers(["event": "\"visit_verified\""], route: .v1PreSession) == ["/session_id"])
        for route in [EventRoute.v1Session, .v1PreSession] {
            let changes: [String: String?] = ["timestamp": nil, "session_id": route == .v1Session ? "\"s\"" : nil]
            #expect(Self.pointers(changes, route: route) == ["/timestamp"])
        }
        #expect(Self.pointers(["timestamp": nil], route: .native) == [])
    }

    @Test("No detail repeats what was sent")
    func discretion() {
        let refusal = #expect(throws: BodyRefusal.self) {
            try Self.decode(["charger_id": "\"+49170\\n555\"", "metadata": "\"52.52,13.40\"", "source": "\"\""])
        }
        #expect(!"\(String(describing: refusal))".contains("49170"))
        #expect(!"\(String(describing: refusal))".contains("52.52"))
    }
}
