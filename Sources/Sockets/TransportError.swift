#if canImport(Glibc)
    internal import Glibc
#elseif canImport(Darwin)
    internal import Darwin
#endif

/// Why bytes could not be transferred, or why a socket could not connect or listen.
package enum TransportError: Error, Hashable, Sendable {
    /// This side closed the connection before the call or during it.
    case closed
    /// The peer is gone: ECONNRESET, EPIPE and similar.
    case reset
    /// The deadline of the call passed before the call had finished.
    case timedOut
    /// The task was cancelled while it waited.
    case cancelled
    /// The connection is draining, and the call had set `endsOnDrain`.
    case draining
    /// Another task already waits for the same direction of this connection.
    case alreadyWaiting
    /// The name could not be resolved, or the address is invalid (a Unix path over 107 bytes).
    case unresolvable
    /// Any other error of a system call: the call's name and its errno.
    case system(call: String, errno: Int32)
}

extension TransportError: CustomStringConvertible {
    /// The error as text for logs, with the system's message.
    package var description: String {
        switch self {
        case .closed: "closed by this side"
        case .reset: "closed by the peer"
        case .timedOut: "timed out"
        case .cancelled: "cancelled"
        case .draining: "draining"
        case .alreadyWaiting: "another task is waiting already"
        case .unresolvable: "no such address"
        case .system(let call, let errno): "\(call): \(String(cString: strerror(errno)))"
        }
    }
}
