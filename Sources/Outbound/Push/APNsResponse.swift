// The meaning of a response of APNs (Apple, "Handling notification responses from APNs").

import JourneyModel
import Push

struct APNsResponse {
    /// The provider token is older than an hour.
    static let expiredToken = "ExpiredProviderToken"

    let status: Int
    /// Apple's word for an error; nil if the response has none.
    let reason: String?
    /// The time at which APNs last found the device token invalid. Only responses with status 410 may have it.
    let timestamp: Moment?
    private let retryAfterSeconds: Int?

    init(_ response: OutgoingResponse) {
        status = response.status
        retryAfterSeconds = response.retryAfterSeconds.map { min(max($0, 1), 3600) }
        let json = response.body.isEmpty ? nil : try? JSONValue.parse(response.body)
        if case .string(let text) = json?["reason"], !text.isEmpty, text.utf8.count <= 64,
            text.utf8.allSatisfy(\.isASCIILetter)
        {
            reason = text
        } else {
            reason = nil
        }
        // Milliseconds since 1970.
        if case .number(let text) = json?["timestamp"], let milliseconds = Int64(text), milliseconds > 0 {
            timestamp = Moment(millisecondsSinceEpoch: milliseconds)
        } else {
            timestamp = nil
        }
    }

    var outcome: PushOutcome {
        let word = reason ?? "status_\(status)"
        switch status {
        case 200: return .delivered
        case 410: return .unregistered(since: timestamp)
        // Apple closed the connection before the request was complete.
        case 400 where reason == "IdleTimeout": return .unavailable(reason: word, afterSeconds: retryAfterSeconds)
        case 403 where reason == Self.expiredToken: return .unavailable(reason: word, afterSeconds: retryAfterSeconds)
        // A 429 has one of two reasons. TooManyRequests means too many notifications to one device.
        // TooManyProviderTokenUpdates occurs only after a restart, or if another server uses the same key (see
        // APNsProviderToken).
        case 429: return .unavailable(reason: word, afterSeconds: retryAfterSeconds ?? 60)
        case 500...599: return .unavailable(reason: word, afterSeconds: retryAfterSeconds)
        default: return .refused(reason: word)
        }
    }
}
