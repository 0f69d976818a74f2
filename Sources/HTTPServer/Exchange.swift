internal import HTTP1
internal import Sockets

/// One request from its head to its response, with its destination and the data for the access log.
struct Exchange {
    enum Destination {
        case handler(RegisteredRoute)
        /// The request was refused before its body was read. The body is then read and discarded, so that the
        /// connection can serve the next request.
        case refusal(Status, detail: String, fields: Fields)
        /// The response is 204 with these fields. Used for OPTIONS requests, including CORS preflights.
        case noContent(Fields)
    }

    var destination: Destination
    /// The request. Its body grows while content is received.
    var request: Request
    /// False if the request was refused before the end of its head. Its method is then unknown, and its fields may be
    /// incomplete.
    var hasHead = true
    /// The reason why `request.remoteAddress` is the address of a trusted proxy; nil if it is the address of the
    /// client.
    var addressGap: ClientAddress.Gap?
    var startedAt = Deadline.now
    /// Set only if the server refused the request without calling a handler. This sentence tells the client the reason.
    var refusalDetail: String?
    /// The owner of the request's credential. It is copied from the response for the access log.
    var principal: String?
    var refusalReason: String?

    mutating func note(_ response: Response) {
        principal = response.principal
        refusalReason = response.refusalReason
    }

    /// Whether `Route.judge` was called for this request.
    var isJudged = false

    var isRefused: Bool {
        if case .refusal = destination { return true }
        return false
    }

    var placed: RegisteredRoute? {
        if case .handler(let placed) = destination { return placed }
        return nil
    }

    var method: Method? { hasHead ? request.method : nil }
}
