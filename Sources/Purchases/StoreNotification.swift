// A verified App Store Server Notification, version 2 (responseBodyV2DecodedPayload). Type and subtype name the event
// that caused the notification. The entitlement depends only on the signed transaction and renewal information in the
// notification.

package import JourneyModel

package struct StoreNotification: Hashable, Sendable {
    /// The notification's id, a UUID in lower case. If Apple sends a notification again, the repeat has the same UUID.
    package var notificationUUID: String
    /// The type as sent, even if `NotificationTypes` does not list it.
    package var type: String
    package var subtype: String?
    package var environment: AppStoreEnvironment
    package var bundleID: String
    package var transaction: TransactionFact?
    package var renewal: RenewalFact?
    package var signedDate: Moment
    /// The JSON that Apple signed.
    package var payload: [UInt8]

    package init(
        notificationUUID: String, type: String, subtype: String?, environment: AppStoreEnvironment, bundleID: String,
        transaction: TransactionFact?, renewal: RenewalFact?, signedDate: Moment, payload: [UInt8]
    ) {
        self.notificationUUID = notificationUUID
        self.type = type
        self.subtype = subtype
        self.environment = environment
        self.bundleID = bundleID
        self.transaction = transaction
        self.renewal = renewal
        self.signedDate = signedDate
        self.payload = payload
    }
}

/// The members of the notification itself. The transaction and the renewal in it are still in their signed form.
package struct NotificationEnvelope: Sendable {
    package var notificationUUID: String
    var type: String
    var subtype: String?
    var environment: AppStoreEnvironment
    var bundleID: String
    var appAppleID: Int64?
    var signedTransaction: String?
    var signedRenewal: String?

    /// Reads the app from the one object that contains it: `data`, `externalPurchaseToken`, `summary` or `appData`.
    /// Exactly one of these four objects must be present.
    package init(_ claims: PayloadReader) throws(PurchaseRefusal) {
        guard let uuid = try claims.optionalUUID("notificationUUID") else { throw .wrongClaims }
        notificationUUID = uuid
        type = try claims.text("notificationType")
        subtype = try claims.optionalText("subtype")

        let data = try claims.optionalObject("data")
        let token = try claims.optionalObject("externalPurchaseToken")
        let candidates = [data, token, try claims.optionalObject("summary"), try claims.optionalObject("appData")]
        let present = candidates.compactMap { $0 }
        guard present.count == 1, let object = present.first else { throw .wrongClaims }

        bundleID = try object.text("bundleId")
        appAppleID = try object.optionalInteger("appAppleId")
        if token != nil {
            // `externalPurchaseToken` is the only object without `environment`. Apple's own library derives the
            // environment from this prefix too.
            environment = try object.text("externalPurchaseId").hasPrefix("SANDBOX") ? .sandbox : .production
        } else {
            environment = try object.environment()
        }
        signedTransaction = try data?.optionalToken("signedTransactionInfo")
        signedRenewal = try data?.optionalToken("signedRenewalInfo")
    }
}
