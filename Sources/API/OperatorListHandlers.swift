// The routes for the details behind the counts on the operator page: lists, the history, a search, and one driver. For
// each response, the store examines and returns a limited number of rows.

import Engine
import HTTP1
import HTTPServer
import JourneyModel
import Logging

struct OperatorListHandlers: Sendable {
    static let driverSessionsMax = 20
    static let driverEventsMax = 50
    static let searchMax = 10

    let operation: OperatorParts
    let clock: @Sendable () -> Moment
    let logger: Logger

    /// The handler of `GET /ops/history`.
    var history: OpenHandler {
        { request throws(ProblemResponse) in
            var query = OperatorQuery(request.query)
            let range: HistoryRange = query.word("range") ?? .hour
            try query.finish()
            let now = clock()
            let steps = try await logger.reading(for: request) { () async throws(StoreFailure) in
                try await operation.history.steps(range, at: now)
            }
            return .noStore(HistoryResponses.history(steps, range, at: now))
        }
    }

    /// The handler of `GET /ops/drivers`.
    var drivers: OpenHandler {
        { request throws(ProblemResponse) in
            var query = OperatorQuery(request.query)
            let (state, cursor, limit): (JourneyState?, Int64?, Int) = (
                query.word("state"), query.cursor(), query.limit()
            )
            try query.finish()
            let page = try await logger.reading(for: request) { () async throws(StoreFailure) in
                try await operation.lists.drivers(in: state, before: cursor, limit: limit)
            }
            return .noStore(OperatorListResponses.drivers(page))
        }
    }

    /// The handler of `GET /ops/drivers/{driver_id}`.
    var driver: OpenHandler {
        { request throws(ProblemResponse) in
            let id = DriverID(request.parameters["driver_id"] ?? "")
            let found = try await logger.reading(for: request) { () async throws(StoreFailure) in
                try await operation.lists.driver(
                    id, sessions: Self.driverSessionsMax, events: Self.driverEventsMax)
            }
            guard let found else { throw ProblemResponse(.notFound, "Driver not found.") }
            let refused = operation.refused.list(of: id, status: nil, limit: OperatorQuery.limitDefault)
            return .noStore(OperatorListResponses.driver(found, refused, at: request.receivedAt))
        }
    }

    /// The handler of `GET /ops/sessions`.
    var sessions: OpenHandler {
        { request throws(ProblemResponse) in
            var query = OperatorQuery(request.query)
            var filter = SessionFilter()
            filter.state = query.word("state")
            filter.isEnded = query.flag("ended")
            filter.chargerID = query.text("charger")
            filter.since = query.moment("from")
            filter.until = query.moment("to")
            let (cursor, limit) = (query.cursor(), query.limit())
            try query.finish()
            let page = try await logger.reading(for: request) { [filter] () async throws(StoreFailure) in
                try await operation.lists.sessions(filter, before: cursor, limit: limit, at: request.receivedAt)
            }
            return .noStore(OperatorListResponses.sessions(page, at: request.receivedAt))
        }
    }

    /// The handler of `GET /ops/events`.
    var events: OpenHandler {
        { request throws(ProblemResponse) in
            var query = OperatorQuery(request.query)
            var filter = EventFilter()
            filter.name = query.text("event")
            filter.transition = query.word("transition")
            filter.reason = query.word("reason")
            filter.state = query.word("state")
            filter.since = query.moment("from")
            filter.until = query.moment("to")
            let (cursor, limit) = (query.cursor(), query.limit())
            try query.finish()
            let page = try await logger.reading(for: request) { [filter] () async throws(StoreFailure) in
                try await operation.lists.events(filter, before: cursor, limit: limit)
            }
            return .noStore(OperatorListResponses.events(page))
        }
    }

    /// The handler of `GET /ops/refusals`.
    var refusals: OpenHandler {
        { request throws(ProblemResponse) in
            var query = OperatorQuery(request.query)
            let driver = query.text("driver").map(DriverID.init)
            let status = query.number("status", in: 400...599)
            let limit = query.limit()
            try query.finish()
            return .noStore(
                OperatorListResponses.refusals(operation.refused.list(of: driver, status: status, limit: limit)))
        }
    }

    /// The handler of `POST /ops/search`. The search text is in the body, because proxies log URLs and the text may be
    /// a phone number.
    var search: OpenHandler {
        { request throws(ProblemResponse) in
            let text: String = try JSONBody.decode(request) { members in
                members.require("query")
                return members.text("query")
            }
            let found = try await logger.reading(for: request) { () async throws(StoreFailure) in
                try await operation.lists.search(text, limit: Self.searchMax)
            }
            return .noStore(OperatorListResponses.search(found, at: request.receivedAt))
        }
    }
}
