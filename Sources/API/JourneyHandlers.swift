// GET /native/session, /native/sessions and /native/sessions/{session_id}: the stored data about the caller's own
// journeys (docs/contract.md, section 3, "Reading").

import Engine
import HTTP1
import HTTPServer
import Identity
import JourneyModel
import Logging
import RateLimiting

struct JourneyHandlers: Sendable {
    /// The default number of sessions on a page of `GET /native/sessions`. This many sessions fit on a phone's screen.
    static let sessionsDefault = 20
    static let sessionsMax = 100
    /// A page of sessions is charged as one read, plus one read for each `sessionsPerRead` sessions on it. docs/cost.md
    /// limits the time per charge: reading a page of a hundred sessions takes about as long as ten median reads, and is
    /// charged as five.
    private static let sessionsPerRead = 25
    /// The maximum number of events in a response of `GET /native/sessions/{session_id}`. A whole session has a few
    /// dozen events of about 400 bytes each.
    static let eventsMax = 500
    /// The events of a session are charged as one read, plus one read for each `eventsPerRead` events.
    private static let eventsPerRead = 100

    let journeys: any JourneyReader
    let settings: CurrentSettings
    let limit: DriverLimit
    let logger: Logger

    var current: CallerHandler {
        { request, caller throws(ProblemResponse) in
            let journey = try await logger.reading(for: request) { () async throws(StoreFailure) in
                try await journeys.journey(of: caller.driver)
            }
            let choice = settings.choice(
                for: SettingsSubject(
                    driver: caller.driver, appVersion: request.appVersion, at: request.receivedAt))
            let version = choice.settings(charger: journey.targetChargerID).version
            return .noStore(JourneyResponses.session(journey, settingsVersion: version, at: request.receivedAt))
        }
    }

    var sessions: CallerHandler {
        { request, caller throws(ProblemResponse) in
            let query = try PageQuery(
                request.query, limitDefault: Self.sessionsDefault, limitMax: Self.sessionsMax)
            let cursor = try sessionCursor(query.cursor)
            let page = try await logger.reading(for: request) { () async throws(StoreFailure) in
                try await journeys.sessions(of: caller.driver, limit: query.limit, after: cursor)
            }
            guard let page else { throw cursorIsUnknown }
            limit.charge(caller.driver, .reads, times: page.sessions.count / Self.sessionsPerRead)
            return .noStore(JourneyResponses.sessions(page, at: request.receivedAt))
        }
    }

    var timeline: CallerHandler {
        { request, caller throws(ProblemResponse) in
            let query = try PageQuery(request.query, limitDefault: Self.eventsMax, limitMax: Self.eventsMax)
            let cursor = try eventCursor(query.cursor)
            let sessionID = request.parameters["session_id"] ?? ""
            let outcome = try await logger.reading(for: request) { () async throws(StoreFailure) in
                try await journeys.timeline(of: sessionID, of: caller.driver, limit: query.limit, after: cursor)
            }
            switch outcome {
            case .found(let timeline):
                limit.charge(caller.driver, .reads, times: timeline.events.count / Self.eventsPerRead)
                return .noStore(JourneyResponses.timeline(timeline, at: request.receivedAt))
            case .sessionNotFound: throw .sessionNotFound
            case .cursorNotFound: throw cursorIsUnknown
            }
        }
    }

    // MARK: Cursors

    private var cursorIsUnknown: ProblemResponse {
        ProblemResponse(.invalid(InvalidFields([PageQuery.cursorIsUnknown])))
    }

    private func sessionCursor(_ cursor: PageCursor?) throws(ProblemResponse) -> String? {
        switch cursor {
        case nil: return nil
        case .session(let sessionID): return sessionID
        case .event: throw cursorIsUnknown
        }
    }

    private func eventCursor(_ cursor: PageCursor?) throws(ProblemResponse) -> Int64? {
        switch cursor {
        case nil: return nil
        case .event(let id): return id
        case .session: throw cursorIsUnknown
        }
    }
}
