// Creates the services for App Store purchases, if an app is configured for purchases.

import CoreMetrics
import Foundation
import Identity
import JourneyModel
import Logging
import MetricInstruments
import Outbound
import Purchases
import SQLiteStore
import ServiceLifecycle
import SharedTables

extension MetricFamily {
    fileprivate static let consumptionRequests = MetricFamily(
        "dwell_consumption_requests_total", "Apple's requests for consumption information, by outcome.")
}

struct PurchaseWiring {
    let service: any PurchaseService
    let counts: PurchaseCounts
    let loops: [any Service]

    /// Returns nil when the server accepts no purchases.
    init?(
        _ configuration: Configuration, store: StoredPurchases, clock: @escaping @Sendable () -> Moment,
        logger: Logger, metrics: any MetricsFactory
    ) async {
        guard let purchases = configuration.purchases else { return nil }
        // Use a separate HTTP client, because each client has a limited number of concurrent calls. A slow App Store
        // therefore does not block sign-ins.
        let http = OutgoingHTTP()
        let api = await purchases.server(http, clock)
        let chain = CertificateChain(roots: [purchases.root])
        let service = AppStorePurchases(verifier: purchases.verifier(chain), store: store, api: api) {
            UUID().uuidString.lowercased()
        }
        self.service = service
        counts = PurchaseCounts(read: store.page, clock: clock)
        let status = CertificateStatus(
            signers: store.signers, record: { try await store.record($0, isRevoked: $1, at: $2) },
            query: { request, url in await OCSPRequest.send(request, to: url, http) }, chain: chain, clock: clock,
            report: { Self.log($0, logger) })
        let outcomes = ConsumptionOutcome.allCases.map { outcome in
            (outcome, metrics.counter(.consumptionRequests, [("outcome", outcome.rawValue)]))
        }
        let consumption = ConsumptionAnswers(queue: store, api: api, clock: clock) { report in
            if case .finished(let finished) = report {
                outcomes.first { $0.0 == finished }?.1.increment(by: 1)
            }
            Self.log(report, logger)
        }
        let checking: [any Service] = [
            ClosingService { http.close() }, LoopService(loop: status.run), LoopService(loop: counts.run),
            LoopService(loop: consumption.run),
        ]
        guard let api else {
            loops = checking
            return
        }
        let history = NotificationHistory(
            api: api, purchases: service, progress: store, apps: purchases.apps, environments: purchases.environments,
            clock: clock, report: { Self.log($0, logger) })
        loops = checking + [LoopService(loop: history.run)]
    }

    private static func log(_ finding: CertificateStatus.Finding, _ logger: Logger) {
        switch finding {
        case .good: break
        case .revoked: logger.error("Apple revoked a certificate: what it signed is no longer believed")
        case .unknown: logger.info("Apple's certificate status is unavailable; asking again")
        }
    }

    private static func log(_ report: ConsumptionAnswers.Report, _ logger: Logger) {
        switch report {
        case .finished(.answered): logger.info("consumption request answered")
        case .finished(let outcome):
            logger.info("consumption request not answered", metadata: ["outcome": "\(outcome.rawValue)"])
        case .failed(let reason):
            logger.warning("consumption information could not be sent; retrying", metadata: ["failure": "\(reason)"])
        }
    }

    private static func log(_ report: NotificationHistory.Report, _ logger: Logger) {
        var metadata: Logger.Metadata = [
            "environment": "\(report.source.environment.rawValue)", "bundle_id": "\(report.source.bundleID)",
        ]
        switch report.result {
        case .filled(let stored, let known, let refused):
            metadata.merge(["stored": "\(stored)", "known": "\(known)", "refused": "\(refused)"]) { $1 }
            logger.info("notification history read", metadata: metadata)
        case .notAvailable:
            logger.info("Apple has no notification history of this app yet", metadata: metadata)
        case .failed(let reason):
            metadata["failure"] = "\(reason)"
            logger.warning("reading the notification history failed; retrying", metadata: metadata)
        }
    }
}

extension PurchaseConfiguration {
    func verifier(_ chain: CertificateChain) -> AppStoreVerifier {
        AppStoreVerifier(apps: apps, environments: environments, chain: chain)
    }

    fileprivate func server(
        _ http: OutgoingHTTP, _ clock: @escaping @Sendable () -> Moment
    ) async -> AppStoreServer? {
        guard let api else { return nil }
        return AppStoreServer(
            http: http,
            token: await AppStoreToken(issuerID: api.issuerID, keyID: api.keyID, key: api.key),
            bundleIDs: apps.map(\.bundleID),
            production: environments.contains(.production) ? api.url.url : nil,
            sandbox: environments.contains(.sandbox) ? api.sandboxURL.url : nil, clock: clock)
    }
}
