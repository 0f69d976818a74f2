// What the process does on a signal beside draining, which the service group does on the first SIGTERM or SIGINT:
// a second one ends at once, SIGHUP reads the environment file again (contract, sections 2 and 7).

import Logging
import ServiceLifecycle
import UnixSignals

#if canImport(Glibc)
    import Glibc
#elseif canImport(Darwin)
    import Darwin
#endif

struct SignalService: Service {
    let reload: @Sendable () -> Void
    let beginDrain: @Sendable () -> Void
    let logger: Logger

    /// Comes first in the group, so that it is the last to be shut down and still hears the second signal.
    func run() async throws {
        let signals = await UnixSignalsSequence(trapping: .sighup, .sigterm, .sigint)
        var endWasAsked = false
        for await signal in signals.cancelOnGracefulShutdown() {
            guard signal != .sighup else {
                reload()
                continue
            }
            if endWasAsked {
                logger.warning("a second signal: ending at once")
                _exit(128 + signal.rawValue)
            }
            endWasAsked = true
            beginDrain()
            logger.notice("draining: no new connections, open requests are answered")
        }
    }
}
