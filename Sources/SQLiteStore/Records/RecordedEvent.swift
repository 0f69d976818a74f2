// All stored data about an event, for `dwell explain`.

package import JourneyModel

/// One stored event with its times, its verdict, and the journey before and after it.
package struct RecordedEvent: Hashable, Sendable {
    /// The store's number, ascending in the order of commits.
    package var id: Int64
    package var eventID: String
    package var idempotencyKey: String
    package var name: EventName
    /// The client's spelling.
    package var spelling: String
    /// Whether the event precedes all folded events, because earlier events were deleted. Its verdict is then the one
    /// of its last fold, or none if it came too late to have an effect, and `before` equals `after`.
    package var isBelowFloor: Bool
    package var origin: OrderedEvent.Origin
    package var sent: SentMembers
    package var sessionID: String?
    package var times: Times
    /// Compact JSON; may contain coordinates.
    package var metadata: String?
    package var settings: SettingsUsed
    package var verdict: Verdict
    /// The journeys before and after the event. A deadline that passes between two events is stored as an event of its
    /// own.
    package var before: Journey
    package var after: Journey
    /// The state before the event, as reported by the client.
    package var previousState: JourneyState?

    package struct Times: Hashable, Sendable {
        /// The time exactly as sent.
        package var occurredAtText: String
        package var occurredAt: Moment
        /// `occurredAt` on the server's clock: the event's time in the order.
        package var corrected: Moment
        /// `X-Sent-At`, otherwise `timestamp`; nil when the client sent neither.
        package var sentAt: Moment?
        /// `timestamp`, if the client sent it in addition to `X-Sent-At`.
        package var timestamp: Moment?
        package var receivedAt: Moment
        /// Receive time minus send time.
        package var skewMilliseconds: Int64
        /// The rule that decided `corrected`; nil for the server's events and for those stored before rules were
        /// recorded.
        package var rule: ClockRule?
    }

    /// The settings in force when the event was stored.
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
    /// Whether there were more events than the limit; the latest are included.
    package var isCut: Bool
}
