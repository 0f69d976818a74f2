// Transactions, renewals and notifications in Apple's form, for tests of stored purchases. The signatures are made up.

package import Identity
package import JourneyModel
package import Purchases

/// A suite of tests with these purchases.
package protocol PurchaseSamples {}

extension PurchaseSamples {
    package static var day: Int { 86_400 }
    package static var start: Moment { .signedIn }

    package static func at(_ days: Int) -> Moment { start.advanced(bySeconds: days * day) }

    /// Apple's id of the customer, in every transaction and renewal of these tests.
    package static var customer: String { "70000000000000001" }

    package static func transaction(
        _ id: String = "1", original: String? = nil, token: String? = nil, from begin: Int = 0, to end: Int = 30,
        signed: Int = 0, revoked: Int? = nil, environment: String = "Production"
    ) throws -> TransactionFact {
        var members = [
            "transactionId": id, "originalTransactionId": original ?? id, "bundleId": "com.example.dwell",
            "productId": "monthly", "subscriptionGroupIdentifier": "group", "type": "Auto-Renewable Subscription",
            "environment": environment, "appTransactionId": customer,
        ].map { #""\#($0)":"\#($1)""# }
        if let token { members.append(#""appAccountToken":"\#(token)""#) }
        members += [("purchaseDate", begin), ("expiresDate", end), ("signedDate", signed)].map {
            #""\#($0)":\#(at($1).millisecondsSinceEpoch)"#
        }
        if let revoked { members.append(#""revocationDate":\#(at(revoked).millisecondsSinceEpoch)"#) }
        let payload = Array("{\(members.sorted().joined(separator: ","))}".utf8)
        return try TransactionFact(payload: payload, proof: SignatureProof(header: "e30", signature: [UInt8(signed)]))
    }

    package static func renewal(of original: String = "1", signed: Int, autoRenews: Bool = true) throws -> RenewalFact {
        let payload = """
            {"appTransactionId":"\(customer)","autoRenewStatus":\(autoRenews ? 1 : 0),"environment":"Production",\
            "originalTransactionId":"\(original)","productId":"monthly",\
            "signedDate":\(at(signed).millisecondsSinceEpoch)}
            """
        return try RenewalFact(
            payload: Array(payload.utf8), proof: SignatureProof(header: "e30", signature: [UInt8(signed)]))
    }

    package static func notification(
        _ number: Int, _ transaction: TransactionFact?, _ renewal: RenewalFact? = nil, type: String = "DID_RENEW",
        subtype: String? = nil, customer: String? = nil
    ) -> StoreNotification {
        let digits = String(number)
        let uuid = "00000000-0000-4000-8000-" + String(repeating: "0", count: 12 - digits.count) + digits
        return StoreNotification(
            notificationUUID: uuid, type: type, subtype: subtype, environment: .production,
            bundleID: "com.example.dwell", transaction: transaction, renewal: renewal, appTransactionID: customer,
            signedDate: at(number), payload: Array("{}".utf8))
    }

    package static func caller(_ name: String) -> Caller { Caller(driver: DriverID(name)) }
}
