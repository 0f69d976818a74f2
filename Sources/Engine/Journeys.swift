// Read access to journeys: a driver's current state, its changes, its sessions, and the events of one session.
//
// Reads see only committed rows, and do not wait for the writer. SQLite has one exception: during a driver's refold,
// reads of the driver's sessions and of their events wait.

package import JourneyModel

/// The port for reading journeys. A call about one driver returns no data of other drivers.
package protocol JourneyReader: Sendable {
    /// Returns the driver's journey after the last event in the contract's order, or a new journey if there is no
    /// event. Deadlines that have passed since that event are not applied; `Journey.advanced(to:)` applies them.
    func journey(of driver: DriverID) async throws(StoreFailure) -> Journey

    /// Returns the changes of the journey after change `id`, oldest first; see `JourneyChanges`.
    func changes(of driver: DriverID, after id: Int64?) async throws(StoreFailure) -> JourneyChanges

    /// Returns at most `limit` sessions, sorted by opening time, latest first. With a cursor, returns only sessions
    /// that were opened before the session `cursor`. Returns nil when `cursor` is not a session of this driver.
    func sessions(of driver: DriverID, limit: Int, after cursor: String?) async throws(StoreFailure) -> SessionPage?

    /// Returns at most `limit` events of a session in the contract's order. With a cursor, begins with the event that
    /// follows event `cursor`.
    func timeline(
        of sessionID: String, of driver: DriverID, limit: Int, after cursor: Int64?
    ) async throws(StoreFailure) -> TimelineOutcome

    /// Returns the drivers for whom any process has committed events after `mark`. A store may leave out drivers that
    /// are not in `drivers`.
    ///
    /// If `mark` is nil, the result has the newest mark, for the caller's next call, and its drivers are `.any`, even
    /// if there are no changes.
    ///
    /// - Parameter mark: `newest` of the previous result.
    func committedChanges(
        after mark: Int64?, among drivers: Set<DriverID>
    ) async throws(StoreFailure) -> CommittedChanges

    /// Returns the drivers among `drivers` whose stored journey awaits a refold (Refold.swift). A journey awaits a
    /// refold if another release folded it with other rules. On SQLite, a journey also awaits a refold while the refold
    /// after a late event is incomplete.
    ///
    /// On SQLite, a refold that changes more events than one transaction may change takes several transactions. It is
    /// incomplete until the last of them is committed.
    func driversAwaitingRefold(among drivers: Set<DriverID>) async throws(StoreFailure) -> Set<DriverID>

    /// Returns the drivers whose journeys were changed by a correction of settings in any process. A store may leave
    /// out drivers that its `committedChanges` returns anyway after a correction.
    ///
    /// The store has a list of these changes. `id` is the number of the last row that the previous call read. If `id`
    /// is nil, returns only the newest row number, with `.any` as the drivers.
    func correctedJourneys(after id: Int64?) async throws(StoreFailure) -> CommittedChanges
}

package struct CommittedChanges: Hashable, Sendable {
    package enum Drivers: Hashable, Sendable {
        case these([DriverID])
        /// Any driver may have changes. Returned if the mark is nil. Also returned on SQLite if too many events follow
        /// the mark, and on PostgreSQL if the mark is not from the previous call.
        case any
    }

    /// The mark to pass to the next call. Callers must not interpret it.
    ///
    /// On SQLite, `committedChanges` returns the row number of the last committed event. `correctedJourneys` returns
    /// the row number of the last corrected journey. Without such a row, the mark is 0.
    ///
    /// On PostgreSQL, `committedChanges` counts its calls in this process, and `correctedJourneys` returns 0.
    package var newest: Int64
    package var drivers: Drivers

    package init(newest: Int64, drivers: Drivers) {
        self.newest = newest
        self.drivers = drivers
    }
}

/// A journey right after a commit in which its state, its session or a deadline changed.
package struct JourneyChange: Hashable, Sendable {
    /// The number of the event that caused the change. A driver's numbers ascend in the order of commits, and are never
    /// reused. SQLite uses row numbers; PostgreSQL numbers each driver's events separately.
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
    /// The driver's current journey, instead of a list of changes. Its id is 0 if no change is stored. Returned in
    /// these cases:
    ///
    /// - The caller names no change, or a change that never existed.
    /// - Some changes after the named change are no longer stored.
    /// - The driver has events but no stored change, for example because a refold deleted the changes.
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
    /// When the session was registered, or when its first event arrived if that was earlier. The time is on the
    /// server's clock.
    package var openedAt: Moment
    /// Nil if the session was opened by its first event and never registered.
    package var registeredAt: Moment?
    package var chargerID: String?
    package var merchantID: String?
    /// The journey after the session's last event; nil when the session was never activated. Deadlines that have passed
    /// since that event are not applied.
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
    /// The event's row number, or on PostgreSQL its number among the driver's events. This number is also the cursor.
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
