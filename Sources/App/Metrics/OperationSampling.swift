// Metrics that are read only when a client reads /metrics. A sampler is a function that sets a group of metrics. The
// samplers here are for waiting codes, open streams, the settings, and the servers on the database.

import API
import CoreMetrics
import Engine
import Foundation
import HTTPServer
import JourneyModel
import MetricInstruments
import Outbound
import RateLimiting
import Sockets
import Synchronization

struct OperationSampling: Sendable {
    let sampling: MetricSampling
    let factory: any MetricsFactory

    func add(_ delivery: WebhookCodeDelivery, clock: @escaping @Sendable () -> Moment) {
        let outbox = OutboxGauges(queue: "codes", factory: factory)
        sampling.add { outbox.set(delivery.codesWaiting, oldest: delivery.oldestWaitingSince, at: clock()) }
    }

    func add(_ streams: JourneyStreams, operators: @escaping @Sendable () -> Int) {
        let drivers = factory.gauge(.streams, [("kind", "driver")])
        let watching = factory.gauge(.streams, [("kind", "operator")])
        sampling.add {
            drivers.set(Int64(streams.count))
            watching.set(Int64(operators()))
        }
    }

    /// Adds the number of rules in force and the version of the settings in force. The version is the label of a series
    /// whose value is always 1. When the version changes, a series with the new label replaces the old series.
    func add(_ settings: CurrentSettings, clock: @escaping @Sendable () -> Moment) {
        let info = SettingsInfoGauge(factory: factory)
        let rules = factory.gauge(.settingsRulesInForce)
        sampling.add {
            info.set(settings.read().version)
            rules.set(Int64(settings.readRules()?.inForceCount(at: clock()) ?? 0))
        }
    }

    func add(_ settings: SettingsStatus) {
        let success = factory.gauge(.settingsReloadSuccess)
        let time = factory.gauge(.settingsReloadTime)
        let needRestart = factory.gauge(.settingsNeedRestart)
        let unknown = factory.gauge(.settingsUnknown)
        sampling.add {
            let figures = settings.figures
            success.set(Int64(figures.isGood ? 1 : 0))
            time.set(Double(figures.loadedAt.millisecondsSinceEpoch) / 1000)
            needRestart.set(Int64(figures.needsRestartCount))
            unknown.set(Int64(figures.unknownCount))
        }
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
            let gauge = factory.gauge(.settingsInfo, [("version", version)])
            gauge.set(Int64(1))
            current = (version, gauge)
        }
    }
}

/// Samples the servers that use the same database.
struct InstanceSampling: Sendable {
    private let instance: InstanceService
    private let alive: any MeterHandler
    private let differing: any MeterHandler

    init(instance: InstanceService, factory: any MetricsFactory) {
        self.instance = instance
        alive = factory.gauge(.instances)
        differing = factory.gauge(.instancesDiffering)
    }

    /// Sets the metrics. If the database cannot be read, or if no row belongs to a live server, the metrics do not
    /// change.
    func sample() async {
        let states = await instance.states().filter(\.isAlive)
        if states.isEmpty { return }
        alive.set(Int64(states.count))
        differing.set(Int64(states.count { !$0.differences.isEmpty }))
    }
}
