// The server: what it is made of, its start and its end.

internal import HTTP1
package import Logging
package import Sockets
internal import Synchronization

/// An address that the server was told to listen on and cannot have.
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

    private struct State {
        var loops: EventLoopGroup?
        var listening: [ListenerGroup] = []
    }
    private let state = Mutex(State())

    /// `loops`: to run on; the server makes its own, and ends them with itself, when there are none.
    package init(
        configuration: ServerConfiguration, routes: [Route], refusals: @escaping RefusalRenderer,
        observer: any RequestObserver, logger: Logger, loops: EventLoopGroup? = nil
    ) {
        self.configuration = configuration
        self.routes = routes
        self.refusals = refusals
        self.observer = observer
        self.logger = logger
        givenLoops = loops
    }

    /// Listens on every address, and serves from then on. Answers the addresses with the ports that the system chose.
    /// Throws `CannotListen` when one of them cannot be had; then none is kept. To be called once.
    package func start() async throws -> [SocketAddress] {
        let loops = try givenLoops ?? EventLoopGroup(count: configuration.loops)
        state.withLock { $0.loops = loops }
        let serving = Serving(
            configuration: configuration, router: Router(routes), refusals: refusals, observer: observer,
            logger: logger, bufferBudget: BufferBudget(bytesMax: configuration.bufferedBytesMax),
            clocks: loops.loops.map { _ in LoopClock() })
        let limits = ConnectionLimits(
            connectionsMax: configuration.connectionsMax,
            connectionsPerAddressMax: configuration.connectionsPerAddressMax)
        do {
            for address in configuration.addresses {
                let group = try await listen(on: address, loops: loops, limits: limits, handler: serving)
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
        on address: SocketAddress, loops: EventLoopGroup, limits: ConnectionLimits, handler: Serving
    ) async throws(CannotListen) -> ListenerGroup {
        do throws(TransportError) {
            return try await ListenerGroup.listen(
                on: address, loops: loops, limits: limits, backlog: configuration.backlog, handler: handler)
        } catch {
            throw CannotListen(address: address, reason: error)
        }
    }

    /// Stops accepting, answers what comes on open connections with `Connection: close`, and closes what is left after
    /// that time. Handlers that still run then run on; their answers are dropped. A second call does nothing.
    package func drain(withinSeconds: Int) async {
        let (listening, loops) = state.withLock { state in
            defer { state = State() }
            return (state.listening, state.loops)
        }
        let deadline = Deadline.inSeconds(withinSeconds)
        await withTaskGroup(of: Void.self) { tasks in
            for group in listening {
                tasks.addTask { await group.drain(until: deadline) }
            }
        }
        if givenLoops == nil { await loops?.shutdown() }
    }
}
