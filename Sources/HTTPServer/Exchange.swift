internal import HTTP1
internal import Sockets

/// One request being received, and how it will be answered.
struct Exchange {
    enum Destination {
        case handler(RegisteredRoute)
        /// Decided before the body was read; the body is read only to keep the connection usable.
        case refusal(Status, detail: String, fields: Fields)
        /// 204 with these fields: OPTIONS, and CORS preflights.
        case noContent(Fields)
    }

    var destination: Destination
    /// The body grows as it is received.
    var request: Request
    /// False when it was refused before its head was complete: then its method is unknown and its fields may be
    /// incomplete.
    var hasHead = true
    /// Why `request.remoteAddress` is a proxy's address, when it is.
    var addressGap: ClientAddress.Gap?
    var startedAt = Deadline.now
    /// Longer content is refused with 413.
    var bodyBytesMax = Int.max
    /// The detail for the client when the server itself, not a handler, refuses the request.
    var refusalDetail: String?
    /// From the response, for the access log.
    var principal: String?
    var refusalReason: String?

    mutating func note(_ response: Response) {
        principal = response.principal
        refusalReason = response.refusalReason
    }

    /// `Route.judge` was called for this request.
    var isJudged = false

    var isRefused: Bool {
        if case .refusal = destination { return true }
        return false
    }

    var placed: RegisteredRoute? {
        if case .handler(let placed) = destination { return placed }
        return nil
    }

    /// nil when it is not known.
    var method: Method? { hasHead ? request.method : nil }
}
