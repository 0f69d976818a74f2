/// The connections that one loop serves for one listener group.
///
/// Safe to share: all mutable state is touched only on `loop`.
final class ConnectionRegistry: @unchecked Sendable {
    let loop: EventLoop
    /// The open connections. `ConnectionLimiter` bounds their number.
    private var connections: [ObjectIdentifier: Connection] = [:]
    private var isDraining = false

    init(_ loop: EventLoop) {
        self.loop = loop
    }

    func insert(_ connection: Connection) {
        loop.assertOnLoop()
        connections[ObjectIdentifier(connection)] = connection
        if isDraining { connection.beginDrain() }
    }

    func remove(_ connection: Connection) {
        loop.assertOnLoop()
        connections[ObjectIdentifier(connection)] = nil
    }

    func beginDrain() {
        loop.assertOnLoop()
        isDraining = true
        for connection in connections.values { connection.beginDrain() }
    }

    func closeAll() {
        loop.assertOnLoop()
        for connection in connections.values { connection.close() }
    }
}
