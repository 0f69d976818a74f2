// The requests of a phone, as bytes and as values.

import Engine
import JourneyModel

enum Sample {
    static let body = bodyBytes(key: "7f3c9a52-1d2e-4b6f-8f52-6d6ab91f0c11")

    static func bodyBytes(key: String) -> [UInt8] {
        Array(
            """
            {"schema_version":"1.0","event_id":"\(key)","session_id":"s-5b1f7c0e",\
            "event":"enteredMerchantZone","occurred_at":"2027-01-15T08:00:00.120Z",\
            "timestamp":"2027-01-15T08:00:00.420Z","source":"ios_native","app_state":"background",\
            "charger_id":"charger-017","metadata":{"accuracy_m":12.5,"speed_mps":0.4}}
            """.utf8)
    }

    static let request: [UInt8] =
        Array(
            """
            POST /native/events HTTP/1.1\r
            Host: dwell.example.org\r
            Authorization: Bearer eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9.\(String(repeating: "x", count: 180)).\
            \(String(repeating: "y", count: 43))\r
            Content-Type: application/json\r
            Content-Length: \(body.count)\r
            User-Agent: Dwell/412 CFNetwork/1568.100.1 Darwin/24.0.0\r
            Accept: */*\r
            \r

            """.utf8) + body

    static let answer = EventResponse(
        status: .ok, eventID: "7f3c9a52-1d2e-4b6f-8f52-6d6ab91f0c11", state: .atMerchant, verdict: .applied)

    /// A journey from IDLE to SESSION_ENDED. A driver can repeat it, because its first events imply the reset to IDLE.
    static let names: [(name: EventName, hasSession: Bool)] = [
        (.chargerTargeted, false), (.enteredChargerIntentZone, false), (.anchorDwellComplete, false),
        (.exclusiveActivatedByWeb, true), (.departedCharger, true), (.enteredMerchantZone, true),
        (.visitVerifiedByWeb, true),
    ]

    /// Two journeys, to be repeated in turn. Each has its own session, because a session that has just ended does not
    /// begin again.
    static let journeys: [OrderedEvent] = ["s-5b1f7c0e", "s-90c2e4d7"].flatMap { session in
        names.enumerated().map { index, event in
            OrderedEvent(
                name: event.name, sessionID: event.hasSession ? session : nil, chargerID: "charger-017",
                occurredAt: Moment(millisecondsSinceEpoch: 1_800_000_000_000), sequence: nil,
                eventID: "event-\(index)", idempotencyKey: "event-\(index)", origin: .client, gracePeriodSeconds: 900,
                hardTimeoutSeconds: 3600)
        }
    }

    /// Returns events of 200 drivers, who take turns. A driver's events are in order, also from one round to the next.
    static func appends(round: Int, count: Int) throws -> [AppendRequest] {
        let settings = VersionedSettings(settings: Settings(), version: Settings().version)
        return try (0..<count).map { number in
            let at = Moment(millisecondsSinceEpoch: 1_800_000_000_000 + Int64(round * 10_000 + number) * 10)
            var submission = try EventSubmission.decode(
                bodyBytes(key: "7f3c9a52-1d2e-4b6f-\(round)-\(number)"), route: .native)
            let event = names[(number / 200) % names.count]
            submission.name = event.name
            submission.sessionID = event.hasSession ? "s-\(number % 200)-\(round)" : nil
            submission.occurredAt = at
            submission.sentAt = at
            return AppendRequest(
                driver: DriverID("driver-\(number % 200)"), submission: submission, receivedAt: at, settings: settings)
        }
    }
}
