// A verified App Store Server Notification, version 2 (responseBodyV2DecodedPayload). Entitlements depend only on its
// signed transaction and renewal information, not on its type and subtype.

internal import Identity
package import JourneyModel

package struct StoreNotification: Hashable, Sendable {
    /// The notification's id, a UUID in lower case. If Apple sends a notification again, the repeat has the same UUID.
    package var notificationUUID: String
    /// The type as sent, even if `NotificationTypes` does not list it.
    package var type: String
    package var subtype: String?
    /// Nil if the notification names no environment. A notification with a transaction always names one.
    package var environment: AppStoreEnvironment?
    /// Nil if the notification names no app. A notification with a transaction always names one.
    package var bundleID: String?
    package var transaction: TransactionFact?
    package var renewal: RenewalFact?
    /// The customer's id at Apple for this app, if the notification is about a customer instead of a purchase.
    package var appTransactionID: String?
    package var signedDate: Moment
    /// The JSON that Apple signed.
    package var payload: [UInt8]

    package init(
        notificationUUID: String, type: String, subtype: String?, environment: AppStoreEnvironment?, bundleID: String?,
        transaction: TransactionFact?, renewal: RenewalFact?, appTransactionID: String? = nil, signedDate: Moment,
        payload: [UInt8]
    ) {
        self.notificationUUID = notificationUUID
        self.type = type
        self.subtype = subtype
        self.environment = environment
        self.bundleID = bundleID
        self.transaction = transaction
        self.renewal = renewal
        self.appTransactionID = appTransactionID
        self.signedDate = signedDate
        self.payload = payload
    }
}

/// The members of a notification. Its transaction and its renewal are not parsed yet.
package struct NotificationEnvelope: Sendable {
    /// What one object in the notification's JSON says about the app. A property is nil if the object lacks it.
    struct App: Sendable {
        var environment: AppStoreEnvironment?
        var bundleID: String?
        var appleID: Int64?
        /// Whether the object must contain the app's Apple ID. True only for the production environment, and only for
        /// objects that Apple documents.
        var needsAppleID = false
    }

    package var notificationUUID: String
    var type: String
    var subtype: String?
    /// What the objects of the notification say about the app; never empty. Each element must match an app of this
    /// server.
    var apps: [App]
    var signedTransaction: String?
    var signedRenewal: String?
    var appTransactionID: String?

    var environment: AppStoreEnvironment? { apps.compactMap(\.environment).first }
    var bundleID: String? { apps.compactMap(\.bundleID).first }

    /// Reads the app's ids from the one object that contains them: `data`, `externalPurchaseToken`, `summary` or
    /// `appData`. At most one of these four objects may be present.
    ///
    /// A future notification type may contain other objects. Such a notification is accepted unless one of its objects
    /// names an app that is not configured.
    package init(_ claims: PayloadReader) throws(PurchaseRefusal) {
        guard let uuid = try claims.optionalUUID("notificationUUID") else { throw .wrongClaims }
        notificationUUID = uuid
        type = try claims.text("notificationType")
        subtype = try claims.optionalText("subtype")

        let data = try claims.optionalObject("data")
        let token = try claims.optionalObject("externalPurchaseToken")
        let candidates = [data, token, try claims.optionalObject("summary"), try claims.optionalObject("appData")]
        let present = candidates.compactMap { $0 }
        guard present.count <= 1 else { throw .wrongClaims }
        if let object = present.first {
            // All objects except `externalPurchaseToken` contain `environment`. The environment of an external purchase
            // follows from the prefix of its id, as in Apple's own library.
            let environment =
                token == nil
                ? try object.environment()
                : try object.text("externalPurchaseId").hasPrefix("SANDBOX") ? .sandbox : .production
            apps = [
                App(
                    environment: environment, bundleID: try object.text("bundleId"),
                    appleID: try object.optionalInteger("appAppleId"), needsAppleID: environment == .production)
            ]
        } else {
            let others = claims.objects
            guard !others.isEmpty else { throw .wrongClaims }
            apps = []
            for object in others + [claims] {
                apps.append(
                    App(
                        environment: try object.optionalEnvironment(), bundleID: try object.optionalText("bundleId"),
                        appleID: try object.optionalInteger("appAppleId")))
            }
        }
        signedTransaction = try data?.optionalToken("signedTransactionInfo")
        signedRenewal = try data?.optionalToken("signedRenewalInfo")
        appTransactionID = claims.objects.lazy.compactMap(Self.appTransactionID).first
    }

    /// Returns the `appTransactionId` of the object's app transaction. The app transaction's own signature is not
    /// verified, because the notification's signature covers the app transaction.
    private static func appTransactionID(in object: PayloadReader) -> String? {
        guard let text = try? object.optionalToken("signedAppTransactionInfo"),
            let jws = CompactJWS(text, bytesMax: SignedPayload.bytesMax)
        else { return nil }
        return PurchaseErasure.appTransactionID(in: jws.payload)
    }
}
