internal import HTTP1
internal import Sockets

/// One request in the making, and what is to become of it.
struct Exchange {
    enum Destination {
        case handler(RegisteredRoute)
        /// Decided before the body was read; the body is read only to keep the connection.
        case refusal(Status, detail: String, fields: Fields)
        /// 204 with these fields: OPTIONS, and the preflights of browsers.
        case noContent(Fields)
    }

    var destination: Destination
    /// Its body grows as it comes.
    var request: Request
    /// False when it was refused before its head was complete: then its method and fields are not known.
    var hasHead = true
    /// Why `request.remoteAddress` is a proxy's, when it is.
    var addressGap: ClientAddress.Gap?
    var startedAt = Deadline.now
    /// Longer content is refused with 413.
    var bodyBytesMax = Int.max
    /// For the client, when the response is a refusal that no handler made.
    var refusalDetail: String?
    /// The response's.
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
