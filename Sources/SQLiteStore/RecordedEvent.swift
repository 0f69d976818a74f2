// All that is stored about an event, for `dwell explain`.

package import JourneyModel

/// One stored event with its times, its verdict, and the journey before and after it.
package struct RecordedEvent: Hashable, Sendable {
    /// The store's number, ascending in the order of commits.
    package var id: Int64
    package var eventID: String
    package var idempotencyKey: String
    package var name: EventName
    /// As the client spelled it.
    package var spelling: String
    /// Before everything that is folded: what came before it was deleted. Its verdict is that of then, or none for
    /// one that came too late to count; `before` is `after`.
    package var isBelowFloor: Bool
    package var origin: OrderedEvent.Origin
    package var source: String
    package var appState: String?
    package var sessionID: String?
    package var chargerID: String?
    package var merchantID: String?
    package var times: Times
    package var sequence: Int64?
    /// Compact JSON; may hold coordinates.
    package var metadata: String?
    package var settings: SettingsUsed
    package var verdict: Verdict
    /// The deadlines that lie between the two have stored events of their own.
    package var before: Journey
    package var after: Journey
    /// In which state the client says that it was before the event.
    package var previousState: JourneyState?

    package struct Times: Hashable, Sendable {
        /// To the letter, as sent.
        package var occurredAtText: String
        package var occurredAt: Moment
        /// On the server's clock; the event's place in the order.
        package var corrected: Moment
        /// `X-Sent-At`, else `timestamp`; nil when the client said neither.
        package var sentAt: Moment?
        /// `timestamp` where `X-Sent-At` came with it.
        package var timestamp: Moment?
        package var receivedAt: Moment
        /// Receive time minus send time.
        package var skewMilliseconds: Int64
        /// Which rule decided `corrected`; nil for the server's events and those of before rules were stored.
        package var rule: ClockRule?
    }

    /// In force when the event was stored.
    package struct SettingsUsed: Hashable, Sendable {
        package var version: String
        package var gracePeriodSeconds: Int
        package var hardTimeoutSeconds: Int
    }
}

/// A part of one driver's events, in the contract's order.
package struct RecordedEvents: Hashable, Sendable {
    package var driver: DriverID
    package var events: [RecordedEvent]
    /// There were more than were asked for; the later ones are here.
    package var isCut: Bool
}
