internal import HTTP1
internal import Sockets

/// One request in the making, and what is to become of it.
struct Exchange {
    enum Destination {
        case handler(Route, parameters: [String: String])
        /// Decided before the body was read; the body is read only to keep the connection.
        case refusal(Status, detail: String, fields: Fields)
        /// 204 with Allow.
        case options(allow: String)
    }

    var id: String
    var destination: Destination
    /// nil when it was refused before its head was complete.
    var head: RequestHead?
    var body: [UInt8] = []
    var remoteAddress: String
    var receivedAtMilliseconds: Int64
    var startedAt = Deadline.now

    var isRefused: Bool {
        if case .refusal = destination { return true }
        return false
    }

    var route: Route? {
        if case .handler(let route, _) = destination { return route }
        return nil
    }
}
