// Metrics that are read rather than counted: connections and buffers, the loops, the writer's queue, Redis, the
// files of the database. Sampled when /metrics is read.

import API
import CoreMetrics
import Engine
import Foundation
import HTTPServer
import JourneyModel
import Outbound
import RateLimiting
import SQLiteStore
import Sockets
import Synchronization
import Telemetry

struct OperationSampling: Sendable {
    let sampling: MetricSampling
    let factory: any MetricsFactory

    func add(_ server: Server) {
        let connections = factory.gauge(MetricFamilies.connections)
        let served = SampledCounter(MetricFamilies.connectionsTotal, [("outcome", "served")], factory: factory)
        let turnedAway = SampledCounter(MetricFamilies.connectionsTotal, [("outcome", "turned_away")], factory: factory)
        let bytes = factory.gauge(MetricFamilies.bufferBytes)
        let bytesMax = factory.gauge(MetricFamilies.bufferBytesMax)
        sampling.add {
            let status = server.counts
            connections.set(Int64(status.connectionsOpen))
            served.sample(status.connectionsServed)
            turnedAway.sample(status.connectionsTurnedAway)
            bytes.set(Int64(status.bytesHeld))
            bytesMax.set(Int64(status.bytesHeldMax))
        }
    }

    func add(_ loops: EventLoopGroup) {
        factory.gauge(MetricFamilies.loops).set(Int64(loops.loops.count))
        for loop in loops.loops {
            let gauge = factory.gauge(MetricFamilies.loopDelaySeconds, [("loop", String(loop.index))])
            let delay = LoopDelay()
            sampling.add { gauge.set(delay.look(at: loop)) }
        }
    }

    func add(_ store: SQLiteEventStore, path: String) {
        let waiting = factory.gauge(MetricFamilies.writesWaiting)
        let main = factory.gauge(MetricFamilies.databaseBytes, [("file", "main")])
        let log = factory.gauge(MetricFamilies.databaseBytes, [("file", "wal")])
        let free = factory.gauge(MetricFamilies.diskFreeBytes)
        sampling.add {
            waiting.set(Int64(store.writesWaiting))
            main.set(Self.bytes(of: path))
            log.set(Self.bytes(of: path + "-wal"))
            if let bytes = store.diskFreeBytes() { free.set(bytes) }
        }
    }

    func add(_ delivery: WebhookCodeDelivery, clock: @escaping @Sendable () -> Moment) {
        let outbox = OutboxGauges(queue: "codes", factory: factory)
        sampling.add { outbox.set(delivery.codesWaiting, oldest: delivery.oldestWaitingSince, at: clock()) }
    }

    /// Streams of drivers and of operators.
    func add(_ streams: JourneyStreams, operators: @escaping @Sendable () -> Int) {
        let drivers = factory.gauge(MetricFamilies.streams, [("kind", "driver")])
        let watching = factory.gauge(MetricFamilies.streams, [("kind", "operator")])
        sampling.add {
            drivers.set(Int64(streams.count))
            watching.set(Int64(operators()))
        }
    }

    /// The version in force, as a label: one series, replaced after a reload.
    func add(_ settings: CurrentSettings) {
        let info = SettingsInfoGauge(factory: factory)
        sampling.add { info.set(settings.read().version) }
    }

    func add(_ redis: RedisRateLimiter) {
        let connections = factory.gauge(MetricFamilies.redisConnections)
        let states = [CircuitBreaker.State.closed, .open, .halfOpen].map {
            ($0, factory.gauge(MetricFamilies.redisBreaker, [("state", $0.rawValue)]))
        }
        let decisions = ["redis", "process", "corrected"].map {
            SampledCounter(MetricFamilies.redisDecisions, [("by", $0)], factory: factory)
        }
        let timeouts = SampledCounter(MetricFamilies.redisFailures, [("reason", "timeout")], factory: factory)
        let errors = SampledCounter(MetricFamilies.redisFailures, [("reason", "error_reply")], factory: factory)
        sampling.add {
            let status = redis.status
            connections.set(Int64(status.connections))
            for (state, gauge) in states { gauge.set(Int64(state == status.breaker ? 1 : 0)) }
            let counts = [status.decisionsByRedis, status.decisionsInProcess, status.decisionsCorrected]
            for (counter, count) in zip(decisions, counts) { counter.sample(count) }
            timeouts.sample(status.timeouts)
            errors.sample(status.errorReplies)
        }
    }

    func add(_ settings: SettingsStatus) {
        let success = factory.gauge(MetricFamilies.settingsReloadSuccess)
        let time = factory.gauge(MetricFamilies.settingsReloadTime)
        let needRestart = factory.gauge(MetricFamilies.settingsNeedRestart)
        let unknown = factory.gauge(MetricFamilies.settingsUnknown)
        sampling.add {
            let figures = settings.figures
            success.set(Int64(figures.isGood ? 1 : 0))
            time.set(Double(figures.loadedAt.millisecondsSinceEpoch) / 1000)
            needRestart.set(Int64(figures.needsRestartCount))
            unknown.set(Int64(figures.unknownCount))
        }
    }

    private static func bytes(of path: String) -> Int64 {
        let attributes = try? FileManager.default.attributesOfItem(atPath: path)
        return (attributes?[.size] as? NSNumber)?.int64Value ?? 0
    }
}

/// How much one delivery queue has waiting, and for how long.
struct OutboxGauges: Sendable {
    private let waiting: any MeterHandler
    private let age: any MeterHandler

    init(queue: String, factory: any MetricsFactory) {
        waiting = factory.gauge(MetricFamilies.outboxWaiting, [("queue", queue)])
        age = factory.gauge(MetricFamilies.outboxAgeSeconds, [("queue", queue)])
    }

    /// `oldest`: since when the oldest has waited; nil: the queue is empty.
    func set(_ count: Int, oldest: Moment?, at now: Moment) {
        waiting.set(Int64(count))
        age.set(Double(max(0, oldest.map { now.milliseconds(since: $0) } ?? 0)) / 1000)
    }
}

private final class SettingsInfoGauge: Sendable {
    private let factory: any MetricsFactory
    private let current = Mutex<(version: String, gauge: any MeterHandler)?>(nil)

    init(factory: any MetricsFactory) {
        self.factory = factory
    }

    func set(_ version: String) {
        current.withLock { current in
            guard current?.version != version else { return }
            if let old = current?.gauge { factory.destroyMeter(old) }
            let gauge = factory.gauge(MetricFamilies.settingsInfo, [("version", version)])
            gauge.set(Int64(1))
            current = (version, gauge)
        }
    }
}

/// The servers on the same database.
struct InstanceSampling: Sendable {
    private let instance: InstanceService
    private let alive: any MeterHandler
    private let differing: any MeterHandler

    init(instance: InstanceService, factory: any MetricsFactory) {
        self.instance = instance
        alive = factory.gauge(MetricFamilies.instances)
        differing = factory.gauge(MetricFamilies.instancesDiffering)
    }

    func sample() async {
        let states = await instance.states().filter(\.isAlive)
        alive.set(Int64(states.count))
        differing.set(Int64(states.count { !$0.differences.isEmpty }))
    }
}

/// How long a loop takes to start a new piece of work: enqueued at one sample, reported at the next. While it has
/// not started, how long it has been waiting.
private final class LoopDelay: Sendable {
    private struct State {
        var putInLineAt: Deadline?
        var seconds = 0.0
    }
    private let state = Mutex(State())

    func look(at loop: EventLoop) -> Double {
        let now = Deadline.now
        let (seconds, isToPut) = state.withLock { state in
            if let since = state.putInLineAt { return (Self.seconds(since, now), false) }
            state.putInLineAt = now
            return (state.seconds, true)
        }
        if isToPut {
            loop.execute { [self] in
                let then = Deadline.now
                state.withLock { state in
                    state.seconds = state.putInLineAt.map { Self.seconds($0, then) } ?? 0
                    state.putInLineAt = nil
                }
            }
        }
        return seconds
    }

    private static func seconds(_ start: Deadline, _ end: Deadline) -> Double {
        end.nanoseconds > start.nanoseconds ? Double(end.nanoseconds - start.nanoseconds) / 1_000_000_000 : 0
    }
}
