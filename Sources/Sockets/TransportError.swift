/// Why bytes could not be moved. Nobody at the other end can be told: a protocol's own errors live above.
package enum TransportError: Error, Hashable, Sendable {
    /// This side closed the connection, before the call or during it.
    case closed
    /// The peer is gone: ECONNRESET, EPIPE and their like.
    case reset
    /// The deadline of the call passed first.
    case timedOut
    /// The task was cancelled while it waited.
    case cancelled
    /// The wait asked to be ended by a drain, and the drain began.
    case draining
    /// Another task already waits for the same direction of this connection.
    case alreadyWaiting
    /// The address is no number and the name could not be resolved, or it does not fit (a Unix path over 107 bytes).
    case unresolvable
    /// Any other refusal of the system: the call's name and its errno.
    case system(call: String, errno: Int32)
}
