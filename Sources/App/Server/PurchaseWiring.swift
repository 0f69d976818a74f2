// The parts of purchases in the App Store, when an app is configured.

import Foundation
import Identity
import JourneyModel
import Logging
import Outbound
import Purchases
import SQLiteStore
import ServiceLifecycle

struct PurchaseWiring {
    let service: any PurchaseService
    /// The loops that run as long as the server.
    let loops: [any Service]

    /// Nil when purchases are not accepted.
    init?(
        _ configuration: Configuration, accounts: SQLiteAccounts, clock: @escaping @Sendable () -> Moment,
        logger: Logger
    ) async {
        guard let purchases = configuration.purchases else { return nil }
        let store = SQLitePurchases(accounts: accounts)
        // A separate one, so that a slow App Store takes no slots from sign-ins.
        let http = OutgoingHTTP()
        let api = await purchases.server(http, clock)
        let service = AppStorePurchases(verifier: purchases.verifier, store: store, api: api) {
            UUID().uuidString.lowercased()
        }
        self.service = service
        guard let api else {
            loops = []
            return
        }
        let history = NotificationHistory(
            api: api, purchases: service, newest: store.newestNotification, apps: purchases.apps,
            environments: purchases.environments, clock: clock, report: { Self.log($0, logger) })
        loops = [ClosingService { http.close() }, LoopService(loop: history.run)]
    }

    private static func log(_ report: NotificationHistory.Report, _ logger: Logger) {
        switch report {
        case .filled(let stored, let known, let refused):
            logger.info(
                "notification history read",
                metadata: ["stored": "\(stored)", "known": "\(known)", "refused": "\(refused)"])
        case .failed(let reason):
            logger.warning("reading the notification history failed; retrying", metadata: ["failure": "\(reason)"])
        }
    }
}

extension PurchaseConfiguration {
    /// A new one: it remembers the certificates it has verified.
    var verifier: AppStoreVerifier {
        AppStoreVerifier(apps: apps, environments: environments, chain: CertificateChain(roots: [root]))
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
