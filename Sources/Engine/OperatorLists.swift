// The individual cases behind the counts of the operator page: drivers, sessions, events, and search results.
// Every list is bounded, and so are the rows examined for it; a page that ends early has a cursor to continue.

package import JourneyModel

package protocol OperatorListReader: Sendable {
    /// Drivers in that state, most recently first seen first; nil: in any.
    func drivers(
        in state: JourneyState?, before place: Int64?, limit: Int
    ) async throws(StoreFailure) -> ListPage<DriverSummary>

    /// Nil when the driver is unknown.
    func driver(
        _ driver: DriverID, sessions: Int, events: Int
    ) async throws(StoreFailure) -> DriverDetail?

    /// Sessions, last opened first.
    ///
    /// - Parameter now: deadlines before it have passed.
    func sessions(
        _ filter: SessionFilter, before place: Int64?, limit: Int, at now: Moment
    ) async throws(StoreFailure) -> ListPage<OperatorSession>

    /// Events, last stored first.
    func events(
        _ filter: EventFilter, before place: Int64?, limit: Int
    ) async throws(StoreFailure) -> ListPage<EventCase>

    /// By driver, session and charger id (or a prefix of one), and by complete phone number.
    func search(_ text: String, limit: Int) async throws(StoreFailure) -> SearchResult
}

package struct ListPage<Element: Hashable & Sendable>: Hashable, Sendable {
    package var elements: [Element]
    /// Where the next page begins; nil: this is the last one.
    package var next: Int64?

    package init(_ elements: [Element], next: Int64?) {
        self.elements = elements
        self.next = next
    }
}

package struct DriverSummary: Hashable, Sendable {
    package var driver: DriverID
    /// As stored: a due expiry that is not stored yet is not applied.
    package var state: JourneyState
    /// In SESSION_ENDED only.
    package var endedBy: Journey.Ending?
    /// When the last event happened, by the server's clock; nil: there is none.
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
    /// Newest first.
    package var sessions: [SessionSummary]
    /// Latest first, by the time at which they happened.
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

/// All criteria that are set must match.
package struct SessionFilter: Hashable, Sendable {
    package var state: JourneyState?
    package var isEnded: Bool?
    /// Of the session, or of one of its events.
    package var chargerID: String?
    /// Opened then or later.
    package var since: Moment?
    /// Opened before.
    package var until: Moment?

    package init() {}
}

package struct EventCase: Hashable, Sendable {
    /// Ascending in the order of commits.
    package var id: Int64
    package var driver: DriverID
    /// Canonical.
    package var name: String
    package var sessionID: String?
    package var chargerID: String?
    /// By the server's clock.
    package var occurredAt: Moment
    package var transition: Verdict.Transition
    package var reason: Verdict.Reason?
    /// The state right after the event.
    package var state: JourneyState
    /// Where `state` is SESSION_ENDED.
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
    /// Canonical; `diagnostic`: any name that the contract does not list.
    package var name: String?
    package var transition: Verdict.Transition?
    package var reason: Verdict.Reason?
    /// The state right after the event.
    package var state: JourneyState?
    /// Received then or later.
    package var since: Moment?
    /// Received before that.
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
