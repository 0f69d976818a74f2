// Fills every port with its part and puts the parts into the order in which they start and end. The one place
// that knows all modules; it decides nothing by itself.

import API
import Engine
import Foundation
import HTTPServer
import Identity
import JourneyModel
import Logging
import RedisAdmission
import SQLiteStore
import ServiceLifecycle
import Sockets
import Telemetry
import UnixSignals

/// The parts of one running server.
struct Wiring {
    private let configuration: Configuration
    private let logger: Logger
    private let loops: EventLoopGroup
    private let store: SQLiteEventStore
    private let admission: any Admission
    /// The same admission when it is Redis's, which has connections to keep.
    private let shared: SharedAdmission?
    private let settings: SettingsInForce
    private let streams: JourneyStreams
    private let server: Server

    /// Opens the database and makes every part; nothing listens yet.
    ///
    /// - Throws: what keeps the server from starting, as an error that says it in a sentence.
    init(_ configuration: Configuration, logger: Logger) async throws {
        self.configuration = configuration
        self.logger = logger
        loops = try EventLoopGroup(count: configuration.http.eventLoopCount)
        store = try Self.openStore(configuration.databasePath)
        settings = SettingsInForce(VersionedSettings(configuration.settings))

        let process = InProcessAdmission(limits: configuration.rateLimits)
        if let endpoint = configuration.redis.endpoint {
            let shared = SharedAdmission(
                endpoint: endpoint, timeoutMilliseconds: configuration.redis.timeoutMilliseconds, fallback: process,
                loops: loops, logger: logger)
            (self.shared, admission) = (shared, shared)
        } else {
            (shared, admission) = (nil, process)
        }

        let ingest = Ingest(
            store: store, admission: admission, settings: settings,
            requiresRegisteredSession: configuration.sessionRegistration == .required)
        let tokens = await AccessTokenVerifier(
            key: try configuration.tokens.signingKey(), scope: configuration.tokens.scope,
            trustExternal: configuration.tokens.trustsExternal, signInSessions: nil)
        streams = JourneyStreams(journeys: store, logger: logger)
        let api = API(
            ingest: ingest, store: store, journeys: store, streams: streams, settings: settings,
            limits: configuration.rateLimits, tokens: tokens, clock: Self.now, logger: logger)
        server = Server(
            configuration: configuration.http.server, routes: api.routes, refusals: api.refusals,
            observer: RequestLog(logger: logger), logger: logger, loops: loops)
    }

    /// Serves until a signal ends it. What starts last ends first: the server drains while the store still takes
    /// events, and the store closes when nobody can ask it any more.
    func run(_ input: ConfigurationInput, hadFile: Bool) async throws {
        let reload = SettingsReload(input: input, settings: settings, logger: logger, hadFile: hadFile)
        var services: [any Service] = [
            SignalService(reload: reload.run, logger: logger),
            ClosingService { [store, loops] in
                await store.close()
                await loops.shutdown()
            },
        ]
        if let shared { services.append(RedisService(admission: shared)) }
        let deadlines = DeadlineKeeping(store: store, settings: settings, clock: Self.now, logger: logger)
        services.append(LoopService(loop: deadlines.run))
        services.append(ServerService(server: server, drainSeconds: max(1, configuration.shutdownTimeoutSeconds - 1)))
        // Last, so that it ends first: a server that drains waits for its streams.
        services.append(LoopService(loop: streams.run, end: streams.close))
        let group = ServiceGroup(
            configuration: ServiceGroupConfiguration(
                services: services.map { .init(service: $0) }, gracefulShutdownSignals: [.sigterm, .sigint],
                logger: logger))
        try await group.run()
    }

    @Sendable private static func now() -> Moment {
        Moment(millisecondsSinceEpoch: millisecondsSince1970())
    }

    /// The database, in a folder that is made when it is not there.
    static func openStore(_ path: String) throws -> SQLiteEventStore {
        let folder = URL(fileURLWithPath: path).deletingLastPathComponent()
        try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
        return try SQLiteEventStore(path: path, nowMilliseconds: millisecondsSince1970())
    }
}

extension Configuration.HTTP {
    fileprivate var server: ServerConfiguration {
        let address: SocketAddress = unixSocketPath.map { .unix(path: $0) } ?? .ip(host: host, port: port)
        var configuration = ServerConfiguration(addresses: [address])
        configuration.loops = eventLoopCount
        configuration.connectionsMax = connectionsMax
        configuration.connectionsPerAddressMax = connectionsPerAddressMax
        configuration.trustedProxies = trustedProxies
        configuration.headTimeoutMilliseconds = patience.headerTimeoutSeconds * 1000
        configuration.bodyTimeoutMilliseconds = patience.bodyTimeoutSeconds * 1000
        configuration.bodyBytesPerSecondMin = patience.bodyBytesPerSecondMin
        configuration.idleTimeoutMilliseconds = patience.idleTimeoutSeconds * 1000
        configuration.writeStallMilliseconds = patience.writeStallTimeoutSeconds * 1000
        configuration.outputBytesMax = outputBufferBytes
        configuration.bufferedBytesMax = bufferedBytesMax
        return configuration
    }
}
