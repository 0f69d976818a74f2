// Measures the delay of each event loop when a client reads the metrics.

import CoreMetrics
import MetricInstruments
import Sockets
import Synchronization

extension MetricFamily {
    static let loops = MetricFamily(
        "dwell_event_loops", "Threads that serve connections.")
    static let loopDelaySeconds = MetricFamily(
        "dwell_event_loop_delay_seconds", "Delay of an event loop before new work, last measured.")
}

enum LoopSampling {
    static func sampler(_ loops: EventLoopGroup, _ factory: any MetricsFactory) -> @Sendable () -> Void {
        factory.gauge(.loops).set(Int64(loops.loops.count))
        let delays = loops.loops.map { loop in
            (loop, LoopDelay(), factory.gauge(.loopDelaySeconds, [("loop", String(loop.index))]))
        }
        return {
            for (loop, delay, gauge) in delays { gauge.set(delay.sample(at: loop)) }
        }
    }
}

/// Measures how long an event loop takes to start a queued call. Each sample queues one call, and returns how long the
/// call of the previous sample waited.
///
/// If the previous call has not started yet, the sample queues no new call, and returns how long the previous call has
/// waited so far.
private final class LoopDelay: Sendable {
    private struct State {
        var enqueuedAt: Deadline?
        var seconds = 0.0
    }
    private let state = Mutex(State())

    func sample(at loop: EventLoop) -> Double {
        let now = Deadline.now
        let (seconds, isToPut) = state.withLock { state in
            if let since = state.enqueuedAt { return (Self.seconds(since, now), false) }
            state.enqueuedAt = now
            return (state.seconds, true)
        }
        if isToPut {
            loop.execute { [self] in
                let then = Deadline.now
                state.withLock { state in
                    state.seconds = state.enqueuedAt.map { Self.seconds($0, then) } ?? 0
                    state.enqueuedAt = nil
                }
            }
        }
        return seconds
    }

    private static func seconds(_ start: Deadline, _ end: Deadline) -> Double {
        end.nanoseconds > start.nanoseconds ? Double(end.nanoseconds - start.nanoseconds) / 1_000_000_000 : 0
    }
}
