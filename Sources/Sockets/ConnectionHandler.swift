// The seam: what is above this module sees a connection only through these two calls, and this module knows nothing
// about what they do.

package protocol ConnectionHandler: Sendable {
    /// Called once per accepted connection, in a task of its own that runs on the connection's loop. The connection
    /// is closed when this returns, if it was not before. The task is cancelled when the peer is gone or the connection
    /// was closed from elsewhere, but not when the peer has only ended its own side.
    func serve(_ connection: Connection) async

    /// Called instead of `serve` for a connection over a limit, so that it can be told; it is closed when this
    /// returns, at latest after a few seconds.
    func reject(_ connection: Connection, _ reason: RejectedConnection) async
}

extension ConnectionHandler {
    package func reject(_ connection: Connection, _ reason: RejectedConnection) async {}
}

/// Who deals with bytes as they come, while the connection's task waits for them (`Connection.waitReadable`): a request
/// that needs no waiting costs no switch of tasks.
package protocol ServesWhileWaiting: AnyObject {
    /// On the loop, when there is something to read; must not block. True: all of it was dealt with, and the wait goes
    /// on (`Connection.waitOn`). False: the task is woken.
    func serveWhileWaiting() -> Bool

    /// On the loop, at the end of a round in which `Connection.flushAtTickEnd` was called, whatever the task does then;
    /// must not block. False: not all could be written, and the task is woken if it waits for bytes.
    func flushAtTickEnd() -> Bool
}

/// Which limit a connection was over.
package enum RejectedConnection: Hashable, Sendable {
    case connectionsMax
    case connectionsPerAddressMax
}
