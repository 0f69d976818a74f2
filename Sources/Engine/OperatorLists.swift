// The lists of the operator page: drivers, sessions, events, and search results. Each list has a maximum length, and
// the store examines a limited number of rows for it.
//
// A list that reached a limit has a cursor for the next page. Search results and the lists of one driver have no
// cursor.

package import JourneyModel

package protocol OperatorListReader: Sendable {
    /// Returns drivers, sorted by `firstSeenAt`, latest first. If `state` is nil, returns drivers in every state.
    func drivers(
        in state: JourneyState?, before cursor: Int64?, limit: Int
    ) async throws(StoreFailure) -> ListPage<DriverSummary>

    /// Returns one driver with at most `sessions` newest sessions and at most `events` newest events. Returns nil when
    /// the driver is unknown.
    func driver(
        _ driver: DriverID, sessions: Int, events: Int
    ) async throws(StoreFailure) -> DriverDetail?

    /// Returns sessions, sorted by opening time, latest first.
    ///
    /// - Parameter now: the time that decides which deadlines have passed.
    func sessions(
        _ filter: SessionFilter, before cursor: Int64?, limit: Int, at now: Moment
    ) async throws(StoreFailure) -> ListPage<OperatorSession>

    /// Returns events, last stored first.
    func events(
        _ filter: EventFilter, before cursor: Int64?, limit: Int
    ) async throws(StoreFailure) -> ListPage<EventCase>

    /// Searches for driver ids, session ids and charger ids that begin with `text`. If `text` is a complete phone
    /// number, also searches for the driver with this phone number.
    func search(_ text: String, limit: Int) async throws(StoreFailure) -> SearchResult
}

package struct ListPage<Element: Hashable & Sendable>: Hashable, Sendable {
    package var elements: [Element]
    /// The cursor for the next page; nil on the last page.
    package var next: Int64?

    package init(_ elements: [Element], next: Int64?) {
        self.elements = elements
        self.next = next
    }
}

package struct DriverSummary: Hashable, Sendable {
    package var driver: DriverID
    /// The stored state. After a deadline, it changes only when the server stores the event that ends the session.
    package var state: JourneyState
    /// Why the journey ended; nil unless `state` is SESSION_ENDED.
    package var endedBy: Journey.Ending?
    /// When the driver's last event happened, on the server's clock; nil without an event.
    package var lastEventAt: Moment?
    package var sessionID: String?
    package var targetChargerID: String?
    package var firstSeenAt: Moment

    package init(
        driver: DriverID, state: JourneyState, endedBy: Journey.Ending? = nil, lastEventAt: Moment?, sessionID: String?,
        targetChargerID: String?, firstSeenAt: Moment
    ) {
        self.driver = driver
        self.state = state
        self.endedBy = endedBy
        self.lastEventAt = lastEventAt
        self.sessionID = sessionID
        self.targetChargerID = targetChargerID
        self.firstSeenAt = firstSeenAt
    }
}

package struct DriverDetail: Hashable, Sendable {
    package var summary: DriverSummary
    /// The newest sessions, newest first.
    package var sessions: [SessionSummary]
    /// The events that happened last, latest first.
    package var events: [EventCase]

    package init(summary: DriverSummary, sessions: [SessionSummary], events: [EventCase]) {
        self.summary = summary
        self.sessions = sessions
        self.events = events
    }
}

package struct OperatorSession: Hashable, Sendable {
    package var driver: DriverID
    package var session: SessionSummary

    package init(driver: DriverID, session: SessionSummary) {
        self.driver = driver
        self.session = session
    }
}

/// A session must match every criterion that is set.
package struct SessionFilter: Hashable, Sendable {
    package var state: JourneyState?
    package var isEnded: Bool?
    /// The charger of the session, or of one of its events.
    package var chargerID: String?
    /// Matches sessions opened at this time or later.
    package var since: Moment?
    /// Matches sessions opened before this time.
    package var until: Moment?

    package init() {}
}

package struct EventCase: Hashable, Sendable {
    /// The row number, or on PostgreSQL the feed position. Events that were stored later have higher numbers.
    package var id: Int64
    package var driver: DriverID
    /// The canonical name.
    package var name: String
    package var sessionID: String?
    package var chargerID: String?
    /// When the event happened, corrected to the server's clock.
    package var occurredAt: Moment
    package var transition: Verdict.Transition
    package var reason: Verdict.Reason?
    /// The driver's state right after the event.
    package var state: JourneyState
    /// The reason why the journey ended, if `state` is SESSION_ENDED.
    package var endedBy: Journey.Ending?

    package init(
        id: Int64, driver: DriverID, name: String, sessionID: String?, chargerID: String?, occurredAt: Moment,
        transition: Verdict.Transition, reason: Verdict.Reason?, state: JourneyState, endedBy: Journey.Ending? = nil
    ) {
        self.id = id
        self.driver = driver
        self.name = name
        self.sessionID = sessionID
        self.chargerID = chargerID
        self.occurredAt = occurredAt
        self.transition = transition
        self.reason = reason
        self.state = state
        self.endedBy = endedBy
    }
}

package struct EventFilter: Hashable, Sendable {
    /// A canonical name. `diagnostic` matches every name that is not in the contract's list.
    package var name: String?
    package var transition: Verdict.Transition?
    package var reason: Verdict.Reason?
    /// The driver's state right after the event.
    package var state: JourneyState?
    /// Matches events received at this time or later.
    package var since: Moment?
    /// Matches events received before this time.
    package var until: Moment?

    package init() {}
}

package struct SearchResult: Hashable, Sendable {
    package var drivers: [DriverSummary]
    package var sessions: [OperatorSession]
    package var chargerIDs: [String]

    package init(drivers: [DriverSummary], sessions: [OperatorSession], chargerIDs: [String]) {
        self.drivers = drivers
        self.sessions = sessions
        self.chargerIDs = chargerIDs
    }
}
