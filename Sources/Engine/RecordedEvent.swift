// The port by which `dwell explain` reads events with all their stored data.

package import JourneyModel

package protocol RecordedEventReader: Sendable {
    /// Returns the session's events, and the driver's other events between them. If there are more than `limit` events,
    /// returns only the latest ones. Returns nil for a session without events.
    func recordedEvents(ofSession sessionID: String, limit: Int) async throws(StoreFailure) -> RecordedEvents?

    /// Returns the driver's last `limit` events; nil if there are none.
    func recordedEvents(of driver: DriverID, limit: Int) async throws(StoreFailure) -> RecordedEvents?
}

/// One stored event with its times, its verdict, and the journey before and after it.
package struct RecordedEvent: Hashable, Sendable {
    /// The row number, or on PostgreSQL the number among the driver's events. Numbers ascend in the order of commits.
    package var id: Int64
    package var eventID: String
    package var idempotencyKey: String
    package var name: EventName
    /// The name as the client spelled it.
    package var spelling: String
    /// Whether the event is before the driver's floor. The floor is the time before which retention has deleted events.
    /// An event below the floor is not folded again, and keeps the verdict of its last fold.
    ///
    /// If the event was below the floor when it arrived, its verdict is `none`. For every event below the floor,
    /// `before` equals `after`, because the journey before the event is unknown.
    package var isBelowFloor: Bool
    package var origin: OrderedEvent.Origin
    package var sent: SentMembers
    package var sessionID: String?
    package var times: Times
    /// Compact JSON; may contain coordinates.
    package var metadata: String?
    package var settings: SettingsUsed
    package var verdict: Verdict
    /// The journeys directly before and directly after the event. If the session's deadline passed before the event,
    /// the session in `before` has already ended, because its expiry is an earlier event.
    package var before: Journey
    package var after: Journey
    /// The state before the event, as reported by the client.
    package var previousState: JourneyState?

    package struct Times: Hashable, Sendable {
        /// The time exactly as sent.
        package var occurredAtText: String
        package var occurredAt: Moment
        /// `occurredAt` on the server's clock. The order of events uses this time.
        package var corrected: Moment
        /// The send time: `X-Sent-At`, or `timestamp` if there is no `X-Sent-At`. Nil if the client sent neither.
        package var sentAt: Moment?
        /// `timestamp`, if the client sent it in addition to `X-Sent-At`.
        package var timestamp: Moment?
        package var receivedAt: Moment
        /// Receive time minus send time.
        package var skewMilliseconds: Int64
        /// The rule that determined `corrected`. Nil for the server's own events, and for events that an old release
        /// stored without a rule.
        package var rule: ClockRule?

        package init(
            occurredAtText: String, occurredAt: Moment, corrected: Moment, sentAt: Moment?, timestamp: Moment?,
            receivedAt: Moment, skewMilliseconds: Int64, rule: ClockRule?
        ) {
            self.occurredAtText = occurredAtText
            self.occurredAt = occurredAt
            self.corrected = corrected
            self.sentAt = sentAt
            self.timestamp = timestamp
            self.receivedAt = receivedAt
            self.skewMilliseconds = skewMilliseconds
            self.rule = rule
        }
    }

    /// The settings with which the fold applies the event.
    package struct SettingsUsed: Hashable, Sendable {
        package var version: String
        /// The version that was stored with the event, if a correction of settings has replaced it by `version`;
        /// otherwise nil.
        package var storedVersion: String?
        package var gracePeriodSeconds: Int
        package var hardTimeoutSeconds: Int

        package init(
            version: String, storedVersion: String?, gracePeriodSeconds: Int, hardTimeoutSeconds: Int
        ) {
            self.version = version
            self.storedVersion = storedVersion
            self.gracePeriodSeconds = gracePeriodSeconds
            self.hardTimeoutSeconds = hardTimeoutSeconds
        }
    }

    package init(
        id: Int64, eventID: String, idempotencyKey: String, name: EventName, spelling: String,
        isBelowFloor:
            Bool, origin: OrderedEvent.Origin, sent: SentMembers, sessionID: String?, times: Times,
        metadata:
            String?, settings: SettingsUsed, verdict: Verdict, before: Journey, after: Journey,
        previousState:
            JourneyState?
    ) {
        self.id = id
        self.eventID = eventID
        self.idempotencyKey = idempotencyKey
        self.name = name
        self.spelling = spelling
        self.isBelowFloor = isBelowFloor
        self.origin = origin
        self.sent = sent
        self.sessionID = sessionID
        self.times = times
        self.metadata = metadata
        self.settings = settings
        self.verdict = verdict
        self.before = before
        self.after = after
        self.previousState = previousState
    }
}

/// A part of one driver's events, in the contract's order.
package struct RecordedEvents: Hashable, Sendable {
    package var driver: DriverID
    package var events: [RecordedEvent]
    /// Whether there were more events than the limit. If so, `events` contains only the latest ones.
    package var isCut: Bool

    package init(
        driver: DriverID, events: [RecordedEvent], isCut: Bool
    ) {
        self.driver = driver
        self.events = events
        self.isCut = isCut
    }
}
