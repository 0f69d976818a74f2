// A scripted drive as a value: what happens to a phone, and how it is reported to the server. It has no absolute
// times and no identity: times are offsets from the start of the drive, and ids get the prefix of the run when they
// are played.

package import JourneyModel

/// One event of a drive.
package struct ScriptedEvent: Hashable, Sendable {
    /// Unique within one driver's drives.
    package var id: String
    package var name: EventName
    /// The canonical spelling, or that of shipped v1 clients.
    package var spelling: String
    package var sessionID: String?
    package var chargerID: String?
    package var merchantID: String?
    /// By a correct clock.
    package var offsetMilliseconds: Int64
    /// How far the phone's clock was ahead when the event happened.
    package var clockErrorMilliseconds: Int64
    package var sequence: Int64?
    /// For an event sent alone; batches have their own route.
    package var route: EventRoute
    /// The state that the phone reports it was in before; nil when not reported.
    package var previousState: JourneyState?
    /// Its time is sent without a fraction of a second.
    package var isWholeSecond = false
    package var timestamp = Timestamp.ofTheEvent

    /// The time of sending in the body.
    package enum Timestamp: Hashable, Sendable {
        /// The time of the event; each attempt carries `X-Sent-At`.
        case ofTheEvent
        /// The time of an attempt this many seconds before the first one that reaches the server; no attempt carries
        /// `X-Sent-At`, which shipped clients do not know.
        case ofAnAttempt(secondsBefore: Int64)
    }
}

/// What a phone sends together.
package struct Delivery: Hashable, Sendable {
    package enum Form: Hashable, Sendable {
        /// One request with one event.
        case alone
        /// One request with all of `events`.
        case batch
        /// As many copies of one event as `events` names, each a separate request, all in flight together.
        case together
        /// As `alone`, in a body that the app has built again.
        case rebuilt
        /// As `alone`, in a body with different content, which the server must reject.
        case changed
    }

    package var form: Form
    /// Indexes into the drive's events; for `.together` all the same.
    package var events: [Int]
    /// How far the phone's clock is ahead when it sends.
    package var clockErrorMilliseconds: Int64
}

package struct Drive: Hashable, Sendable {
    package var scenario: Scenario
    /// The session that the drive opens last.
    package var sessionID: String
    /// In the order in which they happen.
    package var events: [ScriptedEvent]
    package var deliveries: [Delivery]
    /// Until every deadline that the drive may have started has passed.
    package var durationMilliseconds: Int64
}

extension EventRoute {
    var path: String {
        switch self {
        case .native: "/native/events"
        case .v1Session: "/v1/native/session-events"
        case .v1PreSession: "/v1/native/pre-session-events"
        }
    }
}
