// Connects the parts of sign-in: tokens, outgoing HTTP calls and background loops.

import API
import Engine
import Identity
import JourneyModel
import Logging
import Outbound
import RateLimiting
import Secrets
import ServiceLifecycle
import SharedTables
import StructuredLogging

struct SignInWiring {
    let verifier: AccessTokenVerifier
    let services: SignInServices
    /// The changes to accounts that operator commands make.
    let operatorAccounts: OperatorAccounts
    private let memory: SessionStatusCache
    private let erasures: UnfinishedErasures
    private let outgoing: OutgoingWiring
    /// Nil if one-time codes are not sent to a webhook.
    var webhook: WebhookCodeDelivery? { outgoing.delivery as? WebhookCodeDelivery }
    /// The last failed revocation at Apple.
    var revocationFailure: DeliveryFailure { outgoing.revocationFailure }

    init(
        _ configuration: Configuration, key: SigningKey, digests: KeyedHashes, accounts: StoredAccounts,
        admission: any Admission, http: OutgoingHTTP, clock: @escaping @Sendable () -> Moment, logger: Logger
    ) async {
        outgoing = await OutgoingWiring(
            configuration, http: http, queue: accounts, clock: clock, logger: logger)
        memory = SessionStatusCache(store: accounts)
        erasures = UnfinishedErasures(
            store: accounts,
            completed: { logger.notice("deletions completed", metadata: ["drivers": .number($0)]) },
            failed: { logger.error("completing a deletion failed", metadata: ["failure": "\($0)"]) })
        verifier = AccessTokenVerifier(
            key: key, scope: configuration.tokens.scope, trustExternal: configuration.tokens.trustsExternal,
            signInSessions: memory)
        let mint = SessionTokenIssuer(
            issuer: await AccessTokenIssuer(key: key, scope: configuration.tokens.scope),
            lifetimes: configuration.tokens.lifetimes, derived: DerivedTokens(signingKey: key))
        let signIns = SignIns(
            store: accounts, tokens: mint, digests: digests, sendLimits: configuration.codes.limits,
            delivery: outgoing.delivery ?? NoDelivery(), exchange: outgoing.apple,
            alarm: CodeSendAlarm(logger: logger, clock: clock).warn, revoked: memory.catchUp)
        let ownAccount = Accounts(store: accounts, memory: memory, forget: admission.forget)
        operatorAccounts = OperatorAccounts(
            store: accounts, revoked: memory.catchUp, forget: admission.forget)
        services = SignInServices(
            signIns: signIns,
            sessions: TokenSessions(store: accounts, memory: memory, tokens: mint, verifier: verifier),
            accounts: ownAccount, devices: Devices(store: accounts),
            sessionCodes: SessionCodes(store: accounts, digest: digests.sessionCode),
            appleTokens: AppleTokenVerifier(clientIDs: configuration.apple.clientIDs, keys: outgoing.appleKeys),
            appleNotices: ownAccount, sendsCodes: outgoing.delivery != nil, publicKeySet: key.publicKeySet)
    }

    /// The background loops of sign-in. They start before the server listens, and end after it has drained.
    var loops: [any Service] {
        outgoing.loops + [LoopService(loop: memory.run), LoopService(loop: erasures.run)]
    }
}

/// The parts of sign-in that make outgoing calls.
private struct OutgoingWiring {
    let appleKeys: AppleKeySet
    /// Apple's token endpoint; nil if authorization codes are not exchanged.
    let apple: AppleTokenEndpoint?
    /// The delivery of one-time codes; nil if no codes are sent.
    let delivery: (any CodeDelivery)?
    let loops: [any Service]
    let revocationFailure = DeliveryFailure()

    init(
        _ configuration: Configuration, http: OutgoingHTTP, queue: any AppleRevocationQueue,
        clock: @escaping @Sendable () -> Moment, logger: Logger
    ) async {
        var loops: [any Service] = []
        appleKeys = AppleKeySet(
            source: AppleKeySetFetch(http: http, url: configuration.apple.keySetURL.url, logger: logger), clock: clock)
        apple = await Self.tokenEndpoint(configuration, http, clock)
        if let apple {
            let revocations = AppleRevocationDelivery(
                queue: queue, apple: apple, clock: clock, logger: logger, failure: revocationFailure)
            loops.append(LoopService(loop: revocations.run))
        }
        switch configuration.codes.delivery {
        case .none: delivery = nil
        case .log: delivery = LoggedCodeDelivery(logger: logger)
        case .webhook(let url, let secret):
            // The webhook has its own HTTP client, because each client has a limited number of slots for concurrent
            // calls. A slow webhook must not use up the slots for sign-ins with Apple.
            let http = OutgoingHTTP()
            loops.append(ClosingService { http.close() })
            let webhook = WebhookCodeDelivery(
                webhook: CodeWebhook(http: http, url: url.reveal().url, secret: secret), clock: clock, logger: logger,
                drainSeconds: configuration.codeDrainSeconds)
            delivery = webhook
            loops.append(LoopService(loop: webhook.run))
        }
        self.loops = loops
    }

    private static func tokenEndpoint(
        _ configuration: Configuration, _ http: OutgoingHTTP, _ clock: @escaping @Sendable () -> Moment
    ) async -> AppleTokenEndpoint? {
        guard let exchange = configuration.apple.codeExchange, let dataKey = configuration.tokens.dataKey else {
            return nil
        }
        return AppleTokenEndpoint(
            http: http, tokenURL: configuration.apple.tokenURL.url, revokeURL: configuration.apple.revokeURL.url,
            clientSecret: await AppleClientSecret(teamID: exchange.teamID, keyID: exchange.keyID, key: exchange.key),
            seal: FieldEncryption(dataKey: dataKey), clock: clock)
    }
}

/// The delivery of a server that sends no one-time codes. `deliver` is never called, because the route rejects requests
/// for codes.
private struct NoDelivery: CodeDelivery {
    func deliver(_ code: OutgoingCode) {}
}

extension Configuration {
    fileprivate var codeDrainSeconds: Int {
        min(WebhookCodeDelivery.drainSeconds, shutdownTimeoutSeconds / 3)
    }

    /// The drain time of the server of METRICS_PORT, in seconds. This server drains after the public server.
    static let operatorDrainSeconds = 1

    /// The part of the shutdown time for requests in progress, in seconds; at least 1. The rest of the shutdown time is
    /// for other work:
    ///
    /// - one second for the last writes and for closing the store
    /// - `codeDrainSeconds` for the waiting codes, if codes are sent to a webhook
    /// - `operatorDrainSeconds` for the server of METRICS_PORT, if it exists
    var serverDrainSeconds: Int {
        let codes = if case .webhook = codes.delivery { codeDrainSeconds } else { 0 }
        let metrics = operation.metricsAddress == nil ? 0 : Self.operatorDrainSeconds
        return max(1, shutdownTimeoutSeconds - codes - metrics - 1)
    }

    /// The time limit for ending all services, one after the other. After this time, the remaining services are
    /// cancelled. The store needs the last half second of the shutdown time to close.
    ///
    /// Exception: if the shutdown time is one second, the limit is 1.5 seconds, because requests in progress get at
    /// least one second (`serverDrainSeconds`).
    var servicesEndDuration: Duration { .milliseconds(max(2, shutdownTimeoutSeconds) * 1000 - 500) }
}

extension TokenConfiguration {
    fileprivate var lifetimes: TokenLifetimes {
        TokenLifetimes(
            accessSeconds: Int64(timeToLiveSeconds), v1AccessSeconds: Int64(v1TimeToLiveSeconds),
            refreshDays: Int64(refreshTimeToLiveDays),
            legacyDays: Int64(legacyTimeToLiveDays))
    }
}
