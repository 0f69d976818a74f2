// Receives SIGHUP, SIGINT and SIGTERM. CSignals holds these signals until `start` is called, and a dedicated thread
// handles them after that. A signal that arrives while the server starts is therefore not lost, and does not end the
// process.

import CSignals
import Foundation
import Logging
import Synchronization

/// The signals that this process received. A process has only one instance of this class.
final class SignalSource: Sendable {
    enum Request: Hashable, Sendable {
        case reload
        /// SIGTERM or SIGINT.
        case end(by: Int32)
    }

    private struct State: Sendable {
        /// Whether a reload was requested. Several SIGHUP signals before a reload count as one request.
        var isReloadDue = false
        var endSignal: Int32?
        var isEndDue = false
        var logger: Logger?
    }

    private let state = Mutex(State())
    private let wakes: AsyncStream<Void>
    private let wake: AsyncStream<Void>.Continuation

    /// Catches the signals and keeps them until `start` is called. Must be the first call in `main`, because a signal
    /// that arrives earlier has its default action. On glibc, CSignals catches the signals of `dwell serve` even before
    /// `main`.
    static func hold() { dwell_hold_signals() }

    /// Restores the default actions of the signals. Used by commands that are not a server.
    static func release() { dwell_release_signals() }

    init() {
        (wakes, wake) = AsyncStream.makeStream(of: Void.self, bufferingPolicy: .bufferingNewest(1))
    }

    /// Begins to handle signals, including the signals that were held.
    func start() {
        let thread = Thread { [self] in
            while true { take(dwell_next_signal()) }
        }
        thread.name = "signals"
        thread.start()
    }

    /// Sets the logger that reports a second SIGTERM or SIGINT.
    func log(to logger: Logger) { state.withLock { $0.logger = logger } }

    /// Handles one signal. A second SIGTERM or SIGINT ends the process at once, whatever the process is doing.
    func take(_ number: Int32) {
        let (isSecond, logger) = state.withLock { state in
            if number == SIGHUP {
                state.isReloadDue = true
                return (false, state.logger)
            }
            if state.endSignal != nil { return (true, state.logger) }
            (state.endSignal, state.isEndDue) = (number, true)
            return (false, state.logger)
        }
        if isSecond {
            logger?.warning("second signal received; exiting immediately", metadata: ["signal": "\(Self.name(number))"])
            _exit(128 + number)
        }
        wake.yield()
    }

    /// The signal that requested the shutdown; nil if no signal has requested it.
    var endSignal: Int32? { state.withLock { $0.endSignal } }

    /// Calls `body` each time a signal requests a reload or the shutdown. If a reload and the shutdown are both due,
    /// the reload comes first. Returns when the task is cancelled.
    func forEachRequest(_ body: @Sendable (Request) async -> Void) async {
        wake.yield()
        for await _ in wakes {
            for request in taken() { await body(request) }
        }
    }

    private func taken() -> [Request] {
        state.withLock { state in
            var requests: [Request] = []
            if state.isReloadDue { requests.append(.reload) }
            if state.isEndDue, let number = state.endSignal { requests.append(.end(by: number)) }
            (state.isReloadDue, state.isEndDue) = (false, false)
            return requests
        }
    }

    static func name(_ number: Int32) -> String {
        switch number {
        case SIGHUP: "SIGHUP"
        case SIGINT: "SIGINT"
        case SIGTERM: "SIGTERM"
        default: "\(number)"
        }
    }
}
