internal import HTTP1
internal import Sockets

/// One request that is being received, and the way it will be answered.
struct Exchange {
    enum Destination {
        case handler(RegisteredRoute)
        /// A refusal decided before the body was read. The body is then read only to keep the connection usable.
        case refusal(Status, detail: String, fields: Fields)
        /// 204 with these fields: OPTIONS, and CORS preflights.
        case noContent(Fields)
    }

    var destination: Destination
    /// The request, whose body grows as it is received.
    var request: Request
    /// Whether the head is complete. If not, the request was refused, its method is unknown, and its fields may be
    /// incomplete.
    var hasHead = true
    /// Why `request.remoteAddress` is a proxy's address; nil if it is not.
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
