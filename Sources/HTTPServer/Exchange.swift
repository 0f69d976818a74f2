internal import HTTP1
internal import Sockets

/// One request, from its head to its response, and what answers it.
struct Exchange {
    enum Destination {
        case handler(RegisteredRoute)
        /// A refusal decided before the body was read. The body is then read only to keep the connection usable.
        case refusal(Status, detail: String, fields: Fields)
        /// The response is 204 with these fields. Used for OPTIONS and for CORS preflights.
        case noContent(Fields)
    }

    var destination: Destination
    /// The request, whose body grows as it is received.
    var request: Request
    /// Whether the head is complete. If it is not, the request was refused before its end, its method is unknown, and
    /// its fields may be incomplete.
    var hasHead = true
    /// The reason why `request.remoteAddress` is the address of a trusted proxy instead of the client's; nil if it is
    /// not.
    var addressGap: ClientAddress.Gap?
    var startedAt = Deadline.now
    /// The maximum length of the content. Longer content is refused with 413.
    var bodyBytesMax = Int.max
    /// The detail for the client when the server itself, not a handler, refuses the request.
    var refusalDetail: String?
    /// The owner of the credential, copied from the response for the access log.
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

    /// The method; nil if it is unknown.
    var method: Method? { hasHead ? request.method : nil }
}
