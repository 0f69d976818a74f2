// A scripted drive: the events of a phone, and the requests in which the phone reports them. Times are offsets from the
// start of the drive. The prefix of the run is added to ids when the drive is played.

package import JourneyModel

/// One event of a drive.
package struct ScriptedEvent: Hashable, Sendable {
    /// The id of the event, unique within one driver's drives.
    package var id: String
    package var name: EventName
    /// The name on the wire: the canonical spelling, or that of shipped v1 clients.
    package var spelling: String
    package var sessionID: String?
    package var chargerID: String?
    package var merchantID: String?
    /// The time from the start of the drive to the event on a correct clock.
    package var offsetMilliseconds: Int64
    /// How far the phone's clock was ahead when the event happened; negative if it was behind.
    package var clockErrorMilliseconds: Int64
    package var sequence: Int64?
    /// The route for sending the event alone. Batches have their own route.
    package var route: EventRoute
    /// The state before the event, as the phone reports it; nil if it reports none.
    package var previousState: JourneyState?
    /// Whether the event's time is sent without a fraction of a second.
    package var isWholeSecond = false
    package var timestamp = Timestamp.ofTheEvent

    /// The meaning of `timestamp` in the body.
    package enum Timestamp: Hashable, Sendable {
        /// `timestamp` is the time of the event. Each attempt has `X-Sent-At`.
        case ofTheEvent
        /// `timestamp` is the time of an attempt to send the event, `secondsBefore` seconds before the first attempt
        /// that reaches the server. No attempt has `X-Sent-At`, because shipped clients do not send it.
        case ofAnAttempt(secondsBefore: Int64)
    }
}

/// A step in which a phone sends one event, a batch of events, or several copies of one event.
package struct Delivery: Hashable, Sendable {
    package enum Form: Hashable, Sendable {
        /// One request with one event.
        case alone
        /// One request with all of `events`.
        case batch
        /// Several concurrent requests, each with a copy of one event. `events` has one element per request.
        case together
        /// One request with one event. The app has built the body of this request a second time.
        case rebuilt
        /// One request with one event. The body has the event's idempotency key but another time of the event. The
        /// server must reject it.
        case changed
    }

    package var form: Form
    /// Indexes into the drive's events. For `.together`, all these indexes are equal.
    package var events: [Int]
    /// How far the phone's clock is ahead when the events are sent; negative if it is behind.
    package var clockErrorMilliseconds: Int64
}

package struct Drive: Hashable, Sendable {
    package var scenario: Scenario
    /// The session that the drive opens last.
    package var sessionID: String
    /// The events, in the order in which they happen.
    package var events: [ScriptedEvent]
    package var deliveries: [Delivery]
    /// The time from the start of this drive to the start of the following drive. It is long enough for all deadlines
    /// of this drive to pass.
    package var durationMilliseconds: Int64
}

extension EventRoute {
    var path: String {
        switch self {
        case .native, .service: "/native/events"
        case .v1Session: "/v1/native/session-events"
        case .v1PreSession: "/v1/native/pre-session-events"
        }
    }
}
