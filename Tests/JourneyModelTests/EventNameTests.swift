// Tests the event names against a handwritten copy of the contract's table (section 1). Each name has two spellings, a
// lifecycle rank, and may require a session. Errors must point to /event or to /session_id.

import JourneyModel
import Testing

struct EventNameTests {
    struct Row: Sendable {
        var name: EventName
        var canonical: String
        var v1Spelling: String
        var requiresSession: Bool

        init(_ name: EventName, _ canonical: String, _ v1Spelling: String, session: Bool) {
            (self.name, self.canonical, self.v1Spelling, requiresSession) = (name, canonical, v1Spelling, session)
        }
    }

    /// The rows of the contract's table, in ascending order of lifecycle rank.
    static let rows = [
        Row(.chargerTargeted, "chargerTargeted", "charger_targeted", session: false),
        Row(.enteredChargerIntentZone, "enteredChargerIntentZone", "entered_charger_intent_zone", session: false),
        Row(.exitedChargerIntentZone, "exitedChargerIntentZone", "exited_charger_intent_zone", session: false),
        Row(.anchorDwellComplete, "anchorDwellComplete", "anchor_dwell_complete", session: false),
        Row(.anchorLost, "exitedChargerAnchorZone", "anchor_lost", session: false),
        Row(.activationRejected, "activationRejected", "activation_rejected", session: false),
        Row(.exclusiveActivatedByWeb, "exclusiveActivatedByWeb", "exclusive_activated", session: true),
        Row(.departedCharger, "exitedChargerAnchorZone", "departed_charger", session: true),
        Row(.enteredMerchantZone, "enteredMerchantZone", "entered_merchant_zone", session: true),
        Row(.visitVerifiedByWeb, "visitVerifiedByWeb", "visit_verified", session: true),
        Row(.webRequestedEnd, "webRequestedEnd", "web_requested_end", session: false),
        Row(.gracePeriodExpired, "gracePeriodExpired", "grace_period_expired", session: true),
        Row(.hardTimeoutExpired, "hardTimeoutExpired", "hard_timeout_expired", session: true),
        Row(.reset, "reset", "reset", session: true),
        Row(.sessionRestored, "sessionRestored", "session_restored", session: true),
    ]

    @Test("Both spellings are read, and a stored row reads back the same", arguments: rows)
    func spellings(_ row: Row) throws {
        #expect(try EventName(spelling: row.canonical, hasSession: row.requiresSession) == row.name)
        #expect(try EventName(spelling: row.v1Spelling, hasSession: row.requiresSession) == row.name)
        #expect(row.name.canonical == row.canonical)
        #expect(row.name.v1Spelling == row.v1Spelling)
        #expect(row.name.requiresSession == row.requiresSession)
        #expect(EventName(canonical: row.canonical, hasSession: row.requiresSession) == row.name)
    }

    @Test("The rank is the place in the contract's list; diagnostics come last")
    func ranks() {
        #expect(EventName.listed == Self.rows.map(\.name))
        #expect(Self.rows.map(\.name.lifecycleRank) == Array(0...14))
        #expect(EventName.diagnostic("teleport_detected").lifecycleRank == 15)
    }

    @Test("A session event without a session_id is an error at /session_id", arguments: rows)
    func missingSession(_ row: Row) {
        for spelling in [row.canonical, row.v1Spelling] where row.requiresSession {
            // Without a session, the spelling exitedChargerAnchorZone names another event, anchorLost.
            if spelling == "exitedChargerAnchorZone" { continue }
            let error = #expect(throws: FieldError.self) { try EventName(spelling: spelling, hasSession: false) }
            #expect(error?.pointer == "/session_id", "\(spelling)")
        }
    }

    @Test("anchor_lost with a session_id is an error at /session_id; other early events may have one")
    func anchorLostWithSession() throws {
        let error = #expect(throws: FieldError.self) {
            try EventName(spelling: "anchor_lost", hasSession: true, at: "/events/3")
        }
        #expect(error?.pointer == "/events/3/session_id")
        #expect(try EventName(spelling: "exitedChargerAnchorZone", hasSession: true) == .departedCharger)
        #expect(try EventName(spelling: "exitedChargerAnchorZone", hasSession: false) == .anchorLost)
        let early: [EventName] = [.chargerTargeted, .enteredChargerIntentZone, .activationRejected]
        for name in early {
            #expect(try EventName(spelling: name.v1Spelling, hasSession: true) == name)
            #expect(EventName(canonical: name.canonical, hasSession: true) == name)
        }
    }

    @Test(
        "An unknown name is a diagnostic, with and without a session, and case counts",
        arguments: [
            "teleport_detected", "exclusiveactivatedbyweb", "Reset", "x", "Z9_", String(repeating: "a", count: 64),
        ])
    func diagnostics(_ name: String) throws {
        for hasSession in [true, false] {
            #expect(try EventName(spelling: name, hasSession: hasSession) == .diagnostic(name))
            #expect(EventName(canonical: name, hasSession: hasSession) == .diagnostic(name))
        }
        #expect(EventName.diagnostic(name).canonical == name)
        #expect(!EventName.diagnostic(name).requiresSession)
    }

    @Test(
        "What matches no name is an error at /event and cannot be stored",
        arguments: [
            "", "9lives", "_x", "two words", "caf\u{E9}", "a-b", "reset\n", "a\u{0}", "\u{212A}elvin",
            String(repeating: "a", count: 65),
        ])
    func noName(_ text: String) {
        let error = #expect(throws: FieldError.self) { try EventName(spelling: text, hasSession: true) }
        #expect(error?.pointer == "/event")
        #expect(EventName(canonical: text, hasSession: true) == nil)
    }

    @Test("Analytics hears of the session in the name")
    func analyticsNames() {
        #expect(EventName.departedCharger.analyticsName(hasSession: true) == "native_session_exitedChargerAnchorZone")
        #expect(EventName.anchorLost.analyticsName(hasSession: false) == "native_presession_exitedChargerAnchorZone")
        #expect(EventName.diagnostic("x").analyticsName(hasSession: true) == "native_session_x")
        #expect(EventName.chargerTargeted.analyticsName(hasSession: true) == "native_session_chargerTargeted")
    }
}
