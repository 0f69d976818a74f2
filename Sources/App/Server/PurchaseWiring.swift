// The parts of purchases in the App Store, when an app is configured.

import Foundation
import Identity
import Purchases
import SQLiteStore

struct PurchaseWiring {
    let service: any PurchaseService

    /// Nil when purchases are not accepted.
    init?(_ configuration: Configuration, accounts: SQLiteAccounts) {
        guard let purchases = configuration.purchases else { return nil }
        service = AppStorePurchases(verifier: purchases.verifier, store: SQLitePurchases(accounts: accounts)) {
            UUID().uuidString.lowercased()
        }
    }
}

extension PurchaseConfiguration {
    /// A new one: it remembers the certificates it has verified.
    var verifier: AppStoreVerifier {
        AppStoreVerifier(apps: apps, environments: environments, chain: CertificateChain(roots: [root]))
    }
}
