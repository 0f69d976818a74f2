// Connects the parts of the server, and starts and stops them in order. Other files connect some parts: Stores,
// SignInWiring, PurchaseWiring, NotificationWiring, OperationWiring.

import API
import CoreMetrics
import Engine
import Foundation
import HTTPServer
import Identity
import JourneyModel
import Logging
import Outbound
import PrometheusExport
import Purchases
import RateLimiting
import ServiceLifecycle
import Sockets
import StructuredLogging

/// The parts of one running server.
struct Wiring {
    private let configuration: Configuration
    private let logger: Logger
    private let startAndStop: StartAndStopLog
    private let loops: EventLoopGroup
    private let stores: Stores
    private let admission: any Admission
    /// The same object as `admission`, with the concrete type that RedisService needs. Nil without Redis.
    private let shared: RedisRateLimiter?
    private let settings: CurrentSettings
    private let settingsStatus: SettingsStatus
    private let pages: PublicPages
    private let instance: InstanceService
    private let streams: JourneyStreams
    private let signIn: SignInWiring
    private let purchases: PurchaseWiring?
    /// Nil if the server sends no notifications.
    private let notifications: NotificationWiring?
    private let watching: OperationWiring
    private let server: Server
    private let requestLog: RequestLog
    private let outgoing = OutgoingHTTP()
    private let operationHistory: OperationHistory
    private let analyticsFailure = DeliveryFailure()
    /// Nil when METRICS_PORT is not set.
    private let operatorServer: Server?
    /// Nil with PostgreSQL, because commands then change the database directly, and all servers see the changes.
    private let control: ControlService?

    /// Opens the database and creates all parts of the server. The server does not listen yet.
    ///
    /// - Throws: an error whose description says what prevents the start.
    init(_ configuration: Configuration, report: ConfigurationReport, logger: Logger) async throws {
        self.configuration = configuration
        self.logger = logger
        startAndStop = StartAndStopLog(logger: logger, startedAtMilliseconds: millisecondsSince1970())
        loops = try EventLoopGroup(count: configuration.http.eventLoopCount)
        let key = try configuration.tokens.signingKey()
        let digests = KeyedHashes(signingKey: key)
        let metrics = PrometheusMetrics()

        let process = LocalRateLimiter(limits: configuration.rateLimits)
        shared = Self.sharedLimiter(
            configuration.redis, fallback: process, loops: loops, digests: digests, logger: logger)
        admission = shared ?? process
        stores = try await Stores.open(
            configuration.database,
            Stores.Opening(
                digests: digests, milliseconds: startAndStop.startedAtMilliseconds,
                charging: RefoldCharges(admission: admission, limits: configuration.rateLimits), metrics: metrics,
                loops: loops, logger: logger))
        settings = CurrentSettings(
            VersionedSettings(configuration.settings), rules: configuration.settingsRules)
        let startedAt = Moment(millisecondsSinceEpoch: startAndStop.startedAtMilliseconds)
        settingsStatus = SettingsStatus(report, at: startedAt)
        pages = PublicPages(configuration.links.pages)
        instance = InstanceService(
            settingsStatus, name: configuration.instanceName, store: stores.instances, digests: digests,
            settings: settings, startedAt: startedAt, clock: { .now }, logger: logger)

        let ingest = Ingest(
            store: stores.events, admission: admission, settings: settings,
            requiresRegisteredSession: configuration.sessionRegistration == .required,
            confirmsByServiceOnly: configuration.trustedConfirmations == .service, metrics: metrics)
        let guesses = Self.guesses(admission, stores.accounts)
        let drivers = DriverCounts(reader: stores.operatorReader)
        watching = OperationWiring(
            configuration, metrics: metrics, stores: stores, drivers: drivers, settings: settings,
            settingsStatus: settingsStatus, shared: shared, guesses: guesses, loops: loops, instance: instance)
        signIn = await SignInWiring(
            configuration, key: key, digests: digests, accounts: stores.accounts, admission: admission,
            http: outgoing, clock: { .now }, logger: logger)
        purchases = await PurchaseWiring(
            configuration, store: stores.purchases, clock: { .now }, logger: logger, metrics: metrics)
        notifications = NotificationWiring(
            configuration, store: stores.pushes, clock: { .now }, logger: logger, metrics: metrics)
        streams = JourneyStreams(journeys: stores.journeys, logger: logger)
        let figures = RequestStatistics { millisecondsSince1970() / 1000 }
        operationHistory = OperationHistory(
            store: stores.operationHistory, totals: { HistoryTotals.read(metrics) }, clock: { .now }, logger: logger)
        let outbox = OutboxReading(
            stores: stores, analyticsFailure: configuration.analytics == nil ? nil : analyticsFailure,
            codes: signIn.webhook, revocationFailure: signIn.revocationFailure, pushFailure: notifications?.failure,
            clock: { .now })
        let operation = Self.operation(
            configuration, guesses: guesses, figures: figures, stores: stores, drivers: drivers,
            history: operationHistory, outbox: outbox, purchases: purchases?.counts, shared: shared,
            settings: settingsStatus, instance: instance)
        let bufferBudget = BufferBudget(bytesMax: configuration.http.server.bufferedBytesMax)
        let api = API(
            ingest: ingest, store: stores.events, journeys: stores.journeys, streams: streams, settings: settings,
            limits: configuration.rateLimits, admission: admission, tokens: signIn.verifier,
            signIn: signIn.services, purchases: purchases?.service, operation: operation,
            links: configuration.links.apps, pages: pages, bufferBudget: bufferBudget, clock: { .now }, logger: logger,
            metrics: metrics)
        requestLog = RequestLog(
            logger: logger, limits: configuration.log.refusals, driverName: { digests.logName($0) })
        server = Server(
            configuration: configuration.http.server, routes: api.routes + watching.publicRoutes,
            refusals: api.refusals, observer: RequestObservers([requestLog, figures]), logger: logger,
            loops: loops, bufferBudget: bufferBudget, metrics: metrics)
        watching.watch(server)
        watching.watch(streams, operators: { api.operatorStreamCount })
        if let webhook = signIn.webhook { watching.watch(webhook) }
        if let purchases { watching.watch(purchases.counts) }
        if let notifications { watching.watch(notifications.services) }
        operatorServer = watching.ownServer(
            configuration.http, refusals: api.refusals, observer: requestLog, logger: logger, loops: loops)
        control = Self.control(
            configuration, file: stores.file, signIn.operatorAccounts, stores.refolds, refusals: api.refusals,
            observer: requestLog, logger: logger, loops: loops)
    }

    /// Serves until a signal requests the shutdown. Services end in the reverse order of their start. The server
    /// therefore drains before the store closes.
    ///
    /// If the services have not ended within `servicesEndDuration`, all of them are cancelled. For example, a service
    /// may wait for a database that does not respond.
    func run(_ input: ConfigurationInput, hadFile: Bool, signals: SignalSource) async throws {
        try await startAndStop.started(configuration, status: stores.status, settings: settings.read())
        if let signal = signals.endSignal {
            // There is nothing to drain, because the server does not listen yet.
            await close()
            return startAndStop.ended(by: signal, cutConnections: nil)
        }
        let history = SettingsHistoryService(
            store: stores.settingsHistory, instance: configuration.instanceName, clock: { .now }, logger: logger)
        await history.record(settings.read(), settings.readRules(), note: configuration.settingsNote)
        let records = WorkInOrder()
        let reload = SettingsReload(
            input: input, settings: settings, pages: pages, texts: notifications?.texts, status: settingsStatus,
            clock: { .now }, logger: logger,
            hadFile: hadFile,
            record: { settings, rules, note in
                records.add {
                    await history.record(settings, rules, note: note)
                    // Write a heartbeat at once, so that the other servers see the new settings version.
                    await instance.sendHeartbeat()
                }
            },
            recordIncomplete: { reload in records.add { await history.record(reload) } })
        let outcome = DrainOutcome()
        let handling = SignalHandling(
            signals: signals, reload: reload.run, beginDrain: watching.readiness.beginDrain, logger: logger)
        var services: [any Service] = [ClosingService(close: close)]
        services += stores.loops
        if let control { services.append(control) }
        services.append(LoopService(loop: instance.run, end: instance.end))
        services.append(LoopService(loop: requestLog.run, end: requestLog.reportLastOmitted))
        if let shared { services.append(RedisService(admission: shared)) }
        let deadlines = ExpiryScheduler(
            store: stores.deadlines, settings: settings, clock: { .now }, logger: logger, metrics: watching.metrics)
        services.append(LoopService(loop: deadlines.run))
        let refolds = RefoldService(store: stores.refolds, clock: { .now }, logger: logger)
        services.append(LoopService(loop: refolds.run))
        services += signIn.loops
        if let purchases { services += purchases.loops }
        if let notifications { services += notifications.loops }
        services.append(LoopService(loop: operationHistory.run))
        let forwards = configuration.analytics != nil
        let retention = RetentionService(
            store: stores.retention, days: configuration.eventRetentionDays,
            auditDays: configuration.auditRetentionDays,
            clock: { .now }, logger: logger, metrics: watching.metrics,
            forwarded: { [feed = stores.feed] () throws(StoreFailure) in
                forwards ? try await feed.position(of: AnalyticsForwarding.consumer).last : .max
            })
        services.append(LoopService(loop: retention.run))
        if let analytics = configuration.analytics {
            let forwarding = AnalyticsForwarding(
                feed: stores.feed,
                capture: PostHogCapture(http: outgoing, host: analytics.host.url, key: analytics.key),
                clock: { .now }, logger: logger, failure: analyticsFailure)
            services.append(LoopService(loop: forwarding.run))
        }
        // The operator server starts before the public server, so it ends after the public server. /metrics can
        // therefore be read while the public server drains.
        if let operatorServer {
            services.append(ServerService(server: operatorServer, drainSeconds: Configuration.operatorDrainSeconds))
        }
        services.append(ServerService(server: server, drainSeconds: configuration.serverDrainSeconds, outcome: outcome))
        // The streams must end first, because a draining server waits for all its responses, and a stream is a
        // response. Therefore they start last.
        services.append(LoopService(loop: streams.run, end: streams.close))
        var group = ServiceGroupConfiguration(services: services.map { .init(service: $0) }, logger: logger)
        group.maximumGracefulShutdownDuration = configuration.servicesEndDuration
        try await handling.run(ServiceGroup(configuration: group))
        startAndStop.ended(by: signals.endSignal, cutConnections: outcome.cutConnections)
    }

    @Sendable private func close() async {
        outgoing.close()
        await stores.close()
        await loops.shutdown()
    }

    private static func control(
        _ configuration: Configuration, file: String?, _ accounts: OperatorAccounts,
        _ refolds: any SettingsCorrecting, refusals: @escaping RefusalRenderer, observer: any RequestObserver,
        logger: Logger, loops: EventLoopGroup
    ) -> ControlService? {
        guard let file else { return nil }
        let routes = ControlRoutes(
            accounts: accounts, refolder: refolds, version: version,
            database: ControlSocket.identity(ofDatabase: file) ?? "", clock: { .now }, logger: logger)
        var limits = configuration.http.server(on: [.unix(path: ControlSocket.path(ofDatabase: file))])
        limits.connectionsMax = 8
        return ControlService(
            makeServer: { [limits] in
                Server(
                    configuration: limits, routes: routes.routes, refusals: refusals, observer: observer,
                    logger: logger, loops: loops)
            }, logger: logger)
    }

    private static func sharedLimiter(
        _ redis: Configuration.Redis, fallback: LocalRateLimiter, loops: EventLoopGroup, digests: KeyedHashes,
        logger: Logger
    ) -> RedisRateLimiter? {
        guard let endpoint = redis.endpoint else { return nil }
        return RedisRateLimiter(
            endpoint: endpoint, timeoutMilliseconds: redis.timeoutMilliseconds, fallback: fallback, loops: loops,
            keyedHash: digests.serviceEvent, logger: logger)
    }

    private static func guesses(_ admission: any Admission, _ accounts: any SignInStore) -> OperatorGuesses {
        OperatorGuesses(admission: admission) { token, origin in
            // If the audit entry cannot be written, nothing is reported here. The wrong token is refused in any case.
            // The next request that needs the database reports the failure.
            try? await accounts.recordRefusal(.operatorRefused, reason: token, from: origin)
        }
    }

    private static func operation(
        _ configuration: Configuration, guesses: OperatorGuesses, figures: RequestStatistics, stores: Stores,
        drivers: DriverCounts, history: OperationHistory, outbox: OutboxReading, purchases: PurchaseCounts?,
        shared: RedisRateLimiter?,
        settings: SettingsStatus, instance: InstanceService
    ) -> OperatorParts {
        OperatorParts(
            token: configuration.operatorToken, guesses: guesses, reader: stores.operatorReader,
            lists: stores.operatorLists,
            drivers: drivers,
            history: history, figures: figures,
            admission: {
                switch shared?.status {
                case nil: "process"
                case .some(let status) where status.breaker == .closed: "redis"
                case .some(let status): status.nodes > 1 && status.isConnected ? "redis-partly" : "redis-unreachable"
                }
            },
            freeBytes: { stores.status.diskFreeBytes() },
            outbox: outbox.status, purchases: { purchases?.totals }, version: version,
            settings: { settings.read(instance: configuration.instanceName) }, instances: instance.states)
    }
}

extension Configuration.HTTP {
    /// The addresses of the public server. If the parent process has passed sockets, they replace all configured
    /// addresses.
    private var addresses: [SocketAddress] {
        let inherited = InheritedSockets.ofThisProcess
        if !inherited.isEmpty { return inherited.map(SocketAddress.inherited) }
        return hosts.map { .ip(host: $0, port: port) } + (unixSocketPath.map { [.unix(path: $0)] } ?? [])
    }

    /// The configuration of the public server.
    fileprivate var server: ServerConfiguration {
        var configuration = server(on: addresses)
        configuration.loops = eventLoopCount
        configuration.connectionsMax = connectionsMax
        configuration.connectionsPerAddressMax = connectionsPerAddressMax
        configuration.trustedProxies = trustedProxies
        configuration.crossOrigin = crossOrigin
        return configuration
    }

    /// Returns the configuration of a server with these addresses. Every server of the process has the timeouts and
    /// buffer sizes of the HTTP_* variables.
    func server(on addresses: [SocketAddress]) -> ServerConfiguration {
        var configuration = ServerConfiguration(addresses: addresses)
        configuration.headTimeoutMilliseconds = timeouts.headerTimeoutSeconds * 1000
        configuration.bodyTimeoutMilliseconds = timeouts.bodyTimeoutSeconds * 1000
        configuration.bodyTimeMaxMilliseconds = timeouts.bodyTimeMaxSeconds * 1000
        configuration.bodyBytesPerSecondMin = timeouts.bodyBytesPerSecondMin
        configuration.idleTimeoutMilliseconds = timeouts.idleTimeoutSeconds * 1000
        configuration.writeStallMilliseconds = timeouts.writeStallTimeoutSeconds * 1000
        configuration.outputBytesMax = outputBufferBytes
        configuration.bufferedBytesMax = bufferedBytesMax
        return configuration
    }
}
