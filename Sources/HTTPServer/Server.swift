// The server: its parts, its start and its shutdown.

package import CoreMetrics
internal import HTTP1
package import Logging
package import Sockets
internal import Synchronization

/// The error of a server that cannot listen on a configured address.
package struct CannotListen: Error, CustomStringConvertible {
    package var address: SocketAddress
    package var reason: TransportError

    package var description: String { "cannot listen on \(address): \(reason)" }
}

package final class Server: Sendable {
    private let configuration: ServerConfiguration
    private let routes: [Route]
    private let refusals: RefusalRenderer
    private let observer: any RequestObserver
    private let logger: Logger
    private let givenLoops: EventLoopGroup?
    private let metrics: RequestMetrics
    private let bufferBudget: BufferBudget
    private let limiter: ConnectionLimiter

    private struct State {
        var loops: EventLoopGroup?
        var listening: [ListenerGroup] = []
    }
    private let state = Mutex(State())

    /// Creates a server that runs on `loops` and counts requests in `metrics`. If `loops` is nil, the server makes its
    /// own loops and shuts them down after draining. If `bufferBudget` is nil, the server makes a budget of
    /// `configuration.bufferedBytesMax` bytes.
    package init(
        configuration: ServerConfiguration, routes: [Route], refusals: @escaping RefusalRenderer,
        observer: any RequestObserver, logger: Logger, loops: EventLoopGroup? = nil,
        bufferBudget: BufferBudget? = nil, metrics: any MetricsFactory = NOOPMetricsHandler.instance
    ) {
        self.configuration = configuration
        self.routes = routes
        self.refusals = refusals
        self.observer = observer
        self.logger = logger
        givenLoops = loops
        self.metrics = RequestMetrics(routes, metrics)
        self.bufferBudget = bufferBudget ?? BufferBudget(bytesMax: configuration.bufferedBytesMax)
        limiter = ConnectionLimiter(
            ConnectionLimits(
                connectionsMax: configuration.connectionsMax,
                connectionsPerAddressMax: configuration.connectionsPerAddressMax))
    }

    /// Listens on every configured address, begins to serve, and returns the addresses. If a configured port is 0, the
    /// returned address has the port that the system chose. Must be called only once.
    ///
    /// If the server cannot listen on one of the addresses, throws `CannotListen` and listens on none.
    package func start() async throws -> [SocketAddress] {
        let loops = try givenLoops ?? EventLoopGroup(count: configuration.loops)
        state.withLock { $0.loops = loops }
        let middleware = MiddlewareList(
            configuration, methods: Router.allow(routes), observer: observer, metrics: metrics, refusals: refusals)
        let context = ServerContext(
            configuration: configuration, router: Router(middleware.prepared(routes)), middleware: middleware,
            logger: logger, bufferBudget: bufferBudget, clocks: loops.loops.map { _ in LoopClock() })
        do {
            for address in configuration.addresses {
                let group = try await listen(on: address, loops: loops, limiter: limiter, context: context)
                state.withLock { $0.listening.append(group) }
                logger.info("listening", metadata: ["address": "\(group.address)"])
            }
        } catch {
            await drain(withinSeconds: 0)
            throw error
        }
        return state.withLock { $0.listening.map(\.address) }
    }

    private func listen(
        on address: SocketAddress, loops: EventLoopGroup, limiter: ConnectionLimiter, context: ServerContext
    ) async throws(CannotListen) -> ListenerGroup {
        do throws(TransportError) {
            return try await ListenerGroup.listen(
                on: address, loops: loops, limiter: limiter, backlog: configuration.backlog
            ) { connection, rejection, whenOver in context.serve(connection, rejection, whenOver: whenOver) }
        } catch {
            throw CannotListen(address: address, reason: error)
        }
    }

    /// Stops accepting connections, and answers requests on open connections with `Connection: close`. A second call
    /// does nothing.
    ///
    /// Waits at most `withinSeconds` until the open connections have ended. Then closes the remaining connections and
    /// returns their number. The handlers of these connections continue, but their responses are discarded.
    @discardableResult
    package func drain(withinSeconds: Int) async -> Int {
        let (listening, loops) = state.withLock { state in
            defer { state = State() }
            return (state.listening, state.loops)
        }
        let deadline = Deadline.inSeconds(withinSeconds)
        let left = await withTaskGroup(of: Int.self) { tasks in
            for group in listening {
                tasks.addTask { await group.drain(until: deadline) }
            }
            return await tasks.reduce(0, +)
        }
        if givenLoops == nil { await loops?.shutdown() }
        return left
    }

    /// The numbers for `/metrics`.
    package var counts: ServerCounts {
        let connections = limiter.connections
        return ServerCounts(
            connectionsOpen: connections.open, connectionsServed: connections.served,
            connectionsRejected: connections.rejected, responsesDropped: bufferBudget.outputsDropped,
            bytesHeld: bufferBudget.bytesHeld, bytesHeldMax: bufferBudget.bytesMax)
    }
}

package struct ServerCounts: Hashable, Sendable {
    package var connectionsOpen: Int
    /// The connections served since the start.
    package var connectionsServed: Int
    /// The connections rejected since the start because of a limit.
    package var connectionsRejected: Int
    /// The number of unread responses that were dropped since the start, because the memory for unread responses was
    /// used up. Their connections were closed.
    package var responsesDropped: Int
    package var bytesHeld: Int
    package var bytesHeldMax: Int
}
