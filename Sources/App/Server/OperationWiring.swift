// The parts for monitoring the server: metrics, the samplers that update them, and readiness. /metrics exists only if
// METRICS_TOKEN or METRICS_PORT is set.

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
import Sockets
import StructuredLogging

struct OperationWiring: Sendable {
    /// The metrics backend that all parts use.
    let metrics: any MetricsFactory
    let readiness: Readiness
    private let sampling: OperationSampling
    private let routes: OperatorRoutes
    private let address: SocketAddress?
    private let hasToken: Bool

    private static func readiness(of redis: RedisStatus) -> Readiness.Redis {
        if !redis.isConnected { return .lost }
        return redis.nodesConnected < redis.nodes ? .partlyLost : .serves
    }

    init(
        _ configuration: Configuration, metrics: PrometheusMetrics, stores: Stores, drivers: DriverCounts,
        settings: CurrentSettings, settingsStatus: SettingsStatus, shared: RedisRateLimiter?, guesses: OperatorGuesses,
        loops: EventLoopGroup, instance: InstanceService
    ) {
        self.metrics = metrics
        let clock: @Sendable () -> Int64 = { Int64(Deadline.now.nanoseconds / 1_000_000) }
        let readiness = Readiness(
            takesWrite: { (try? await stores.status.checkWritable()) != nil },
            redis: { shared.map { Self.readiness(of: $0.status) } ?? .notConfigured },
            clock: clock)
        self.readiness = readiness
        address = configuration.operation.metricsAddress.map { .ip(host: $0.host, port: $0.port) }
        hasToken = configuration.operation.metricsToken != nil

        let process = ProcessMetrics(metrics, version: version, startedAtMilliseconds: millisecondsSince1970())
        let sampling = MetricSampling()
        self.sampling = OperationSampling(sampling: sampling, factory: metrics)
        sampling.add(LoopSampling.sampler(loops, metrics))
        sampling.add(stores.sampler(metrics))
        self.sampling.add(settings) { .now }
        if let shared { sampling.add(shared.sampler(metrics)) }
        sampling.add(process.sample)
        self.sampling.add(settingsStatus)
        let others = InstanceSampling(instance: instance, factory: metrics)
        let audit = AuditSampling(store: stores.accountStatistics, factory: metrics, clock: clock)
        let kept = StoreSampling(
            stores: stores, drivers: drivers, forwards: configuration.analytics != nil,
            sendsPushes: configuration.push != nil,
            codeLimits: configuration.codes.limits, factory: metrics)
        let ready = ReadinessSampling(readiness, factory: metrics)
        let database = DatabaseSampling {
            await audit.sample()
            await others.sample()
            await kept.sample(at: .now)
        }
        routes = OperatorRoutes(
            readiness: readiness, metricsToken: configuration.operation.metricsToken, guesses: guesses,
            metricsMediaType: PrometheusMetrics.mediaType
        ) {
            await ready.sample()
            await database.sample()
            // Sample in a detached task, because sampling reads files and must not block the event loop.
            return await Task.detached {
                sampling.sample()
                return metrics.text()
            }.value
        }
    }

    /// The routes that the public listener serves in addition to those of the API.
    var publicRoutes: [Route] {
        address == nil && hasToken ? [routes.ready, routes.metrics] : [routes.ready]
    }

    /// Returns the server that listens on METRICS_PORT; nil when METRICS_PORT is not set.
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

    /// Adds the number of waiting one-time codes to the sampled metrics.
    func watch(_ delivery: WebhookCodeDelivery) {
        sampling.add(delivery) { .now }
    }

    /// Adds the numbers of open streams to the sampled metrics.
    func watch(_ streams: JourneyStreams, operators: @escaping @Sendable () -> Int) {
        sampling.add(streams, operators: operators)
    }

    /// Adds the numbers of entitlements to the sampled metrics.
    func watch(_ purchases: PurchaseCounts) {
        sampling.sampling.add(PurchaseSampling.sampler(purchases, metrics))
    }

    /// Adds the connections to the push services to the sampled metrics.
    func watch(_ services: PushServices) {
        sampling.sampling.add(services.sampler(metrics))
    }

    /// Adds the server's own metrics to the sampled metrics.
    func watch(_ server: Server) {
        sampling.sampling.add(server.sampler(metrics))
    }
}
