// Read access to journeys: a driver's current state, its changes, its sessions, and the events of one session. Only
// committed rows are read, and reads do not wait for the writer. One exception: on SQLite, a read of sessions or of
// their events waits while a refold of the driver is under way.

package import JourneyModel

/// The port for reading journeys. A call about one driver returns no data of other drivers.
package protocol JourneyReader: Sendable {
    /// Returns the driver's journey after the last stored event in the order, or a new journey for a driver without
    /// events. Deadlines that have passed since that event are not applied; `Journey.advanced(to:)` applies them.
    func journey(of driver: DriverID) async throws(StoreFailure) -> Journey

    /// Returns the changes of the journey after change `id`, oldest first; see `JourneyChanges`.
    func changes(of driver: DriverID, after id: Int64?) async throws(StoreFailure) -> JourneyChanges

    /// Returns at most `limit` sessions, sorted by opening time, latest first. If `cursor` is not nil, the list
    /// contains only sessions that were opened before the session `cursor`. Returns nil when `cursor` is not a session
    /// of this driver.
    func sessions(of driver: DriverID, limit: Int, after cursor: String?) async throws(StoreFailure) -> SessionPage?

    /// Returns at most `limit` events of a session in the contract's order. If `cursor` is not nil, the list begins
    /// with the event that follows event `cursor`.
    func timeline(
        of sessionID: String, of driver: DriverID, limit: Int, after cursor: Int64?
    ) async throws(StoreFailure) -> TimelineOutcome

    /// Returns the drivers who have events that were committed after `mark`, by any process. A store may leave out
    /// drivers that are not in `drivers`. If `mark` is nil, the result says nothing about changes: it has the newest
    /// mark, with which the caller begins, and `.any` as the drivers.
    ///
    /// - Parameter mark: `newest` of the previous result.
    func committedChanges(
        after mark: Int64?, among drivers: Set<DriverID>
    ) async throws(StoreFailure) -> CommittedChanges

    /// Returns the drivers among `drivers` whose stored journey a refold will still replace (Refold.swift). There are
    /// two possible reasons. The journey was folded by the rules of another release. Or, on SQLite, a late event
    /// affects more events than one transaction may change.
    func driversAwaitingRefold(among drivers: Set<DriverID>) async throws(StoreFailure) -> Set<DriverID>

    /// Returns the drivers whose journey a correction of settings has changed, in any process. The store has a list of
    /// these changes, and `id` is the row number in this list at which the previous call ended. If `id` is nil, returns
    /// only the newest row number, and `.any` as the drivers. A store whose `committedChanges` reports these drivers
    /// too may leave them out here.
    func correctedJourneys(after id: Int64?) async throws(StoreFailure) -> CommittedChanges
}

package struct CommittedChanges: Hashable, Sendable {
    package enum Drivers: Hashable, Sendable {
        case these([DriverID])
        /// Any driver may have changes. Returned if the caller passed no mark, if the store has no record of what
        /// changed since the mark, or if there are too many new events to examine.
        case any
    }

    /// The mark to pass to the next call. It has no meaning for callers. On SQLite it is the row number of the last
    /// committed event, or of the last corrected journey; 0 when there is none. On PostgreSQL, `committedChanges`
    /// counts its calls in this process, and `correctedJourneys` always returns 0.
    package var newest: Int64
    package var drivers: Drivers

    package init(newest: Int64, drivers: Drivers) {
        self.newest = newest
        self.drivers = drivers
    }
}

/// A journey right after a commit that changed its state, its session or a deadline.
package struct JourneyChange: Hashable, Sendable {
    /// The number of the event that caused the change. On SQLite it is the event's row number. On PostgreSQL the events
    /// of each driver are numbered separately. The numbers of one driver ascend in the order of the commits, and are
    /// never reused.
    package var id: Int64
    package var journey: Journey
    /// The event that caused the change; nil when it is no longer stored.
    package var cause: Cause?

    package struct Cause: Hashable, Sendable {
        package var eventID: String
        package var name: EventName
        package var occurredAt: Moment
        package var source: String

        package init(eventID: String, name: EventName, occurredAt: Moment, source: String) {
            self.eventID = eventID
            self.name = name
            self.occurredAt = occurredAt
            self.source = source
        }
    }

    /// - Parameter journey: only its state, session and deadlines are used.
    package init(id: Int64, journey: Journey, cause: Cause?) {
        self.id = id
        self.journey = journey
        self.cause = cause
    }
}

package enum JourneyChanges: Hashable, Sendable {
    /// All changes after change `id`; empty when there are none.
    case all([JourneyChange])
    /// The driver's current journey instead of a list. Returned in these cases: the caller names no change; the named
    /// change never existed; the named change is so old that later changes are no longer stored; the driver has events
    /// but no stored change, for example because a refold deleted the changes. The id is 0 if no change is stored.
    case newest(JourneyChange)
}

package struct SessionPage: Hashable, Sendable {
    package var sessions: [SessionSummary]
    package var hasMore: Bool

    package init(sessions: [SessionSummary], hasMore: Bool) {
        self.sessions = sessions
        self.hasMore = hasMore
    }
}

package struct SessionSummary: Hashable, Sendable {
    package var sessionID: String
    /// When the session was opened, on the server's clock: when it was registered or when its first event arrived,
    /// whichever came first.
    package var openedAt: Moment
    /// When the session was registered; nil for a session that its first event opened.
    package var registeredAt: Moment?
    package var chargerID: String?
    package var merchantID: String?
    /// The journey after the last event that belongs to this session; nil when the session was never activated.
    /// Deadlines that have passed since that event are not applied.
    package var journey: Journey?

    package init(
        sessionID: String, openedAt: Moment, registeredAt: Moment? = nil, chargerID: String? = nil,
        merchantID: String? = nil, journey: Journey? = nil
    ) {
        self.sessionID = sessionID
        self.openedAt = openedAt
        self.registeredAt = registeredAt
        self.chargerID = chargerID
        self.merchantID = merchantID
        self.journey = journey
    }
}

package enum TimelineOutcome: Hashable, Sendable {
    case found(SessionTimeline)
    /// The session is unknown, or belongs to another driver.
    case sessionNotFound
    /// The cursor is not an event of this session.
    case cursorNotFound
}

package struct SessionTimeline: Hashable, Sendable {
    package var session: SessionSummary
    package var events: [SessionEvent]
    package var hasMore: Bool

    package init(session: SessionSummary, events: [SessionEvent], hasMore: Bool) {
        self.session = session
        self.events = events
        self.hasMore = hasMore
    }
}

/// A stored event with its current verdict.
package struct SessionEvent: Hashable, Sendable {
    /// The row number of the event, or on PostgreSQL its number among the driver's events. This number is also the
    /// cursor.
    package var id: Int64
    package var eventID: String
    package var idempotencyKey: String
    package var name: EventName
    package var sent: SentMembers
    /// When the event happened, corrected to the server's clock.
    package var occurredAt: Moment
    /// The text of `occurred_at`, exactly as sent.
    package var occurredAtText: String
    package var receivedAt: Moment
    package var settingsVersion: String
    package var verdict: Verdict
    /// The driver's state right after this event.
    package var state: JourneyState
    /// The reason why the journey ended, if `state` is SESSION_ENDED.
    package var endedBy: Journey.Ending?

    package init(
        id: Int64, eventID: String, idempotencyKey: String, name: EventName, sent: SentMembers,
        occurredAt: Moment, occurredAtText: String, receivedAt: Moment, settingsVersion: String, verdict: Verdict,
        state: JourneyState,
        endedBy: Journey.Ending? = nil
    ) {
        self.id = id
        self.eventID = eventID
        self.idempotencyKey = idempotencyKey
        self.name = name
        self.sent = sent
        self.occurredAt = occurredAt
        self.occurredAtText = occurredAtText
        self.receivedAt = receivedAt
        self.settingsVersion = settingsVersion
        self.verdict = verdict
        self.state = state
        self.endedBy = endedBy
    }
}
