package import Sockets

/// Serves each connection of a listener in a separate task on the connection's event loop. When `serve` returns, the
/// connection is closed.
///
/// If the peer is gone, or other code closes the connection, the task is cancelled. If the peer closes only its sending
/// side, the task is not cancelled.
package protocol ConnectionHandler: Sendable {
    func serve(_ connection: Connection) async

    /// Called instead of `serve` for a connection that exceeds a limit.
    func reject(_ connection: Connection, _ reason: RejectedConnection) async
}

extension ConnectionHandler {
    package func reject(_ connection: Connection, _ reason: RejectedConnection) async {}
}

extension ListenerGroup {
    package static func listen(
        on address: SocketAddress, loops: EventLoopGroup, limiter: ConnectionLimiter, backlog: Int = 4096,
        handler: any ConnectionHandler
    ) async throws(TransportError) -> ListenerGroup {
        try await listen(on: address, loops: loops, limiter: limiter, backlog: backlog) {
            connection, rejection, whenOver in
            let task = Task(executorPreference: connection.loop) {
                if let rejection {
                    await handler.reject(connection, rejection)
                } else {
                    await handler.serve(connection)
                }
                connection.close()
                whenOver()
            }
            connection.whenChanged { _ in if connection.peerIsGone { task.cancel() } }
        }
    }

    package static func listen(
        on address: SocketAddress, loops: EventLoopGroup, limits: ConnectionLimits = ConnectionLimits(),
        backlog: Int = 4096, handler: any ConnectionHandler
    ) async throws(TransportError) -> ListenerGroup {
        try await listen(
            on: address, loops: loops, limiter: ConnectionLimiter(limits), backlog: backlog, handler: handler)
    }
}
