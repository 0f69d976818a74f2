// The event, its response, and its effect on a journey. Unlike Dwell, this service does not sort late events by their
// time.

import Foundation
import Hummingbird

struct Event: Decodable, Sendable {
    var eventID: String
    var sessionID: String?
    var name: String
    var occurredAt: String
    var chargerID: String?
    var source: String?
    var appState: String?

    /// Milliseconds since 1970.
    var occurredAtMilliseconds: Int64 = 0
    /// The whole body that was sent, including metadata.
    var body: String = ""

    enum CodingKeys: String, CodingKey {
        case eventID = "event_id"
        case sessionID = "session_id"
        case name = "event"
        case occurredAt = "occurred_at"
        case chargerID = "charger_id"
        case source
        case appState = "app_state"
    }

    private static let decoder = JSONDecoder()
    private static let withFraction = Date.ISO8601FormatStyle(includingFractionalSeconds: true)
    private static let withoutFraction = Date.ISO8601FormatStyle()

    init(decoding buffer: ByteBuffer) throws {
        do {
            self = try Self.decoder.decode(Event.self, from: buffer)
            let date = try (try? Self.withFraction.parse(occurredAt)) ?? Self.withoutFraction.parse(occurredAt)
            occurredAtMilliseconds = Int64((date.timeIntervalSince1970 * 1000).rounded())
        } catch {
            throw HTTPError(.badRequest, message: "The body is not an event.")
        }
        guard (1...128).contains(eventID.utf8.count) else { throw HTTPError(.badRequest) }
        body = String(buffer: buffer)
    }
}

struct Answer: ResponseEncodable, Sendable {
    struct Session: Encodable, Sendable {
        var state: String
        var transition: String
    }

    var status: String
    var eventID: String
    var session: Session

    enum CodingKeys: String, CodingKey {
        case status
        case eventID = "event_id"
        case session
    }
}

enum Journey {
    /// Returns nil if the event does not change the state.
    static func next(_ state: String, _ event: String, hasSession: Bool) -> String? {
        switch (state, event) {
        case ("IDLE", "enteredChargerIntentZone"), ("SESSION_ENDED", "enteredChargerIntentZone"): "NEAR_CHARGER"
        case ("NEAR_CHARGER", "exitedChargerIntentZone"): "IDLE"
        case ("NEAR_CHARGER", "anchorDwellComplete"): "ANCHORED"
        case ("ANCHORED", "exitedChargerAnchorZone") where !hasSession: "NEAR_CHARGER"
        case ("ANCHORED", "exclusiveActivatedByWeb"): "SESSION_ACTIVE"
        case ("SESSION_ACTIVE", "exitedChargerAnchorZone") where hasSession: "IN_TRANSIT"
        case ("IN_TRANSIT", "enteredMerchantZone"): "AT_MERCHANT"
        case ("AT_MERCHANT", "visitVerifiedByWeb"), ("IN_TRANSIT", "gracePeriodExpired"): "SESSION_ENDED"
        case ("SESSION_ENDED", "reset"): "IDLE"
        default: nil
        }
    }
}
