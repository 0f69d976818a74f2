// A verified App Store Server Notification, version 2 (responseBodyV2DecodedPayload). The entitlement depends only on
// the signed transaction and renewal inside. Type and subtype name the event that caused the notification.

package import JourneyModel

package struct StoreNotification: Hashable, Sendable {
    /// A UUID in lower case. Apple's retries of a notification have the same UUID.
    package var notificationUUID: String
    /// The type as sent, even if `NotificationTypes` does not list it.
    package var type: String
    package var subtype: String?
    package var environment: AppStoreEnvironment
    package var bundleID: String
    package var transaction: TransactionFact?
    package var renewal: RenewalFact?
    package var signedDate: Moment
    /// JSON, as signed.
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

/// The members of a notification itself. Its transaction and renewal are still in signed form.
package struct NotificationEnvelope: Sendable {
    package var notificationUUID: String
    var type: String
    var subtype: String?
    var environment: AppStoreEnvironment
    var bundleID: String
    var appAppleID: Int64?
    var signedTransaction: String?
    var signedRenewal: String?

    /// Reads the app from `data`, `externalPurchaseToken`, `summary` or `appData`; exactly one of them must be present.
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
            // The only object without `environment`; Apple's own library uses this prefix.
            environment = try object.text("externalPurchaseId").hasPrefix("SANDBOX") ? .sandbox : .production
        } else {
            environment = try object.environment()
        }
        signedTransaction = try data?.optionalToken("signedTransactionInfo")
        signedRenewal = try data?.optionalToken("signedRenewalInfo")
    }
}
