// The handling of signals (contract, sections 2 and 7). The first SIGTERM or SIGINT starts the drain, and SignalSource
// handles a second SIGTERM or SIGINT. On SIGHUP, the server reads the environment file again.

import Logging
import ServiceLifecycle

struct SignalHandling: Sendable {
    let signals: SignalSource
    let reload: @Sendable () -> Void
    let beginDrain: @Sendable () -> Void
    let logger: Logger

    /// Runs the services until all of them have ended. During this time, handles new signals, and the signals that
    /// arrived before the call.
    func run(_ group: ServiceGroup) async throws {
        try await withThrowingTaskGroup(of: Void.self) { tasks in
            tasks.addTask {
                await signals.forEachRequest { await handle($0, group) }
            }
            defer { tasks.cancelAll() }
            try await group.run()
        }
    }

    private func handle(_ request: SignalSource.Request, _ group: ServiceGroup) async {
        switch request {
        case .reload: reload()
        case .end(let number):
            beginDrain()
            logger.notice(
                "draining: no new connections, completing open requests",
                metadata: ["signal": "\(SignalSource.name(number))"])
            await group.triggerGracefulShutdown()
        }
    }
}
