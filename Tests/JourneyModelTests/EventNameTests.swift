// The contract's table of event names (section 1), written out by hand: two spellings, who needs a session, the
// lifecycle rank, and what is an error at /event or at /session_id.

import JourneyModel
import Testing

struct EventNameTests {
    struct Row: Sendable {
        var name: EventName
        var canonical: String
        var v1Spelling: String
        var requiresSession: Bool
    }

    /// Lowest lifecycle rank first, as the contract lists them.
    static let rows: [Row] = [
        Row(name: .chargerTargeted, canonical: "chargerTargeted", v1Spelling: "charger_targeted", requiresSession: false),
        Row(
            name: .enteredChargerIntentZone, canonical: "enteredChargerIntentZone",
            v1Spelling: "entered_charger_intent_zone", requiresSession: false),
        Row(
            name: .exitedChargerIntentZone, canonical: "exitedChargerIntentZone",
            v1Spelling: "exited_charger_intent_zone", requiresSession: false),
        Row(
            name: .anchorDwellComplete, canonical: "anchorDwellComplete", v1Spelling: "anchor_dwell_complete",
            requiresSession: false),
        Row(name: .anchorLost, canonical: "exitedChargerAnchorZone", v1Spelling: "anchor_lost", requiresSession: false),
        Row(
            name: .activationRejected, canonical: "activationRejected", v1Spelling: "activation_rejected",
            requiresSession: false),
        Row(
            name: .exclusiveActivatedByWeb, canonical: "exclusiveActivatedByWeb", v1Spelling: "exclusive_activated",
            requiresSession: true),
        Row(
            name: .departedCharger, canonical: "exitedChargerAnchorZone", v1Spelling: "departed_charger",
            requiresSession: true),
        Row(
            name: .enteredMerchantZone, canonical: "enteredMerchantZone", v1Spelling: "entered_merchant_zone",
            requiresSession: true),
        Row(
            name: .visitVerifiedByWeb, canonical: "visitVerifiedByWeb", v1Spelling: "visit_verified",
            requiresSession: true),
        Row(
            name: .webRequestedEnd, canonical: "webRequestedEnd", v1Spelling: "web_requested_end", requiresSession: true
        ),
        Row(
            name: .gracePeriodExpired, canonical: "gracePeriodExpired", v1Spelling: "grace_period_expired",
            requiresSession: true),
        Row(
            name: .hardTimeoutExpired, canonical: "hardTimeoutExpired", v1Spelling: "hard_timeout_expired",
            requiresSession: true),
        Row(name: .reset, canonical: "reset", v1Spelling: "reset", requiresSession: true),
        Row(name: .sessionRestored, canonical: "sessionRestored", v1Spelling: "session_restored", requiresSession: true),
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
            // exitedChargerAnchorZone without a session is the other event of that name.
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

    @Test("An unknown name is a diagnostic, with and without a session, and case counts", arguments: [
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

    @Test("What matches no name is an error at /event and cannot be stored", arguments: [
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
