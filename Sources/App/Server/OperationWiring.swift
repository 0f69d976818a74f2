// The parts by which the server is monitored: metrics with their readers, and readiness. Without METRICS_TOKEN and
// METRICS_PORT metrics cannot be read, and /metrics does not exist.

import API
import CoreMetrics
import Engine
import HTTPServer
import JourneyModel
import Logging
import MetricInstruments
import Outbound
import PrometheusExport
import Purchases
import RateLimiting
import SQLiteStore
import Sockets
import StructuredLogging

struct OperationWiring: Sendable {
    /// The metrics backend of all parts.
    let metrics: any MetricsFactory
    let readiness: Readiness
    private let sampling: OperationSampling
    private let routes: OperatorRoutes
    private let address: SocketAddress?
    private let hasToken: Bool

    init(
        _ configuration: Configuration, metrics: PrometheusMetrics, store: SQLiteEventStore, drivers: DriverCounts,
        settings: CurrentSettings, settingsStatus: SettingsStatus, shared: RedisRateLimiter?, guesses: OperatorGuesses,
        loops: EventLoopGroup, instance: InstanceService
    ) {
        self.metrics = metrics
        let readiness = Readiness(
            takesWrite: { (try? await store.checkWritable()) != nil },
            redis: { shared.map { $0.status.isConnected ? .serves : .lost } ?? .notConfigured },
            clock: { Int64(Deadline.now.nanoseconds / 1_000_000) })
        self.readiness = readiness
        address = configuration.operation.metricsAddress.map { .ip(host: $0.host, port: $0.port) }
        hasToken = configuration.operation.metricsToken != nil

        let process = ProcessMetrics(metrics, version: version, startedAtMilliseconds: millisecondsSince1970())
        let sampling = MetricSampling()
        self.sampling = OperationSampling(sampling: sampling, factory: metrics)
        sampling.add(LoopSampling.sampler(loops, metrics))
        sampling.add(store.sampler(path: configuration.databasePath, metrics))
        self.sampling.add(settings)
        if let shared { sampling.add(shared.sampler(metrics)) }
        sampling.add(process.sample)
        self.sampling.add(settingsStatus)
        let others = InstanceSampling(instance: instance, factory: metrics)
        let audit = AuditSampling(store: store, factory: metrics)
        let kept = StoreSampling(
            store: store, drivers: drivers, forwards: configuration.analytics != nil,
            codeLimits: configuration.codes.limits, factory: metrics)
        let ready = ReadinessSampling(readiness, factory: metrics)
        routes = OperatorRoutes(
            readiness: readiness, metricsToken: configuration.operation.metricsToken, guesses: guesses,
            metricsMediaType: PrometheusMetrics.mediaType
        ) {
            await ready.sample()
            await audit.sample()
            await others.sample()
            await kept.sample(at: Moment(millisecondsSinceEpoch: millisecondsSince1970()))
            // Reads files, so it does not run on the event loop that responds.
            return await Task.detached {
                sampling.sample()
                return metrics.text()
            }.value
        }
    }

    /// What the public listener serves in addition to the API.
    var publicRoutes: [Route] {
        address == nil && hasToken ? [routes.ready, routes.metrics] : [routes.ready]
    }

    /// The listener of METRICS_PORT; nil without it.
    func ownServer(
        _ http: Configuration.HTTP, refusals: @escaping RefusalRenderer, observer: any RequestObserver, logger: Logger,
        loops: EventLoopGroup
    ) -> Server? {
        guard let address else { return nil }
        var configuration = http.server(on: [address])
        configuration.connectionsMax = 64
        return Server(
            configuration: configuration, routes: routes.health + [routes.metrics], refusals: refusals,
            observer: observer, logger: logger, loops: loops)
    }

    /// Samples how many one-time codes wait.
    func watch(_ delivery: WebhookCodeDelivery) {
        sampling.add(delivery) { Moment(millisecondsSinceEpoch: millisecondsSince1970()) }
    }

    /// Samples how many streams are open.
    func watch(_ streams: JourneyStreams, operators: @escaping @Sendable () -> Int) {
        sampling.add(streams, operators: operators)
    }

    /// Samples how many entitlements there are.
    func watch(_ purchases: PurchaseCounts) {
        sampling.sampling.add(PurchaseSampling.sampler(purchases, metrics))
    }

    /// Samples the metrics of this server too.
    func watch(_ server: Server) {
        sampling.sampling.add(server.sampler(metrics))
    }
}
