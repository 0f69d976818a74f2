// The bodies of purchases (contract, section 9). Only their form is checked here; the signatures are verified by the
// service.

import HTTPServer
import JourneyModel
import Purchases

/// POST /native/purchases
struct PurchaseBody {
    /// `jwsRepresentation` of a StoreKit 2 transaction.
    var signedTransaction: String
    /// `jwsRepresentation` of the subscription's renewal info.
    var signedRenewal: String?

    static func decode(_ request: Request) throws(ProblemAnswer) -> PurchaseBody {
        try AccountBody.decode(request, bytesMax: RequestLimits.purchaseBytesMax) { members in
            members.require("signed_transaction")
            let transaction = members.text("signed_transaction", "must be a JWS signed by Apple") { !$0.isEmpty }
            let renewal = members.text("signed_renewal_info", "must be a JWS signed by Apple") { !$0.isEmpty }
            return transaction.map { PurchaseBody(signedTransaction: $0, signedRenewal: renewal) }
        }
    }
}

/// POST /apple/store-notifications, in Apple's spelling
enum StoreNotificationBody {
    static func decode(_ request: Request) throws(ProblemAnswer) -> String {
        try AccountBody.decode(request, bytesMax: RequestLimits.storeNotificationBytesMax) { members in
            members.require("signedPayload")
            return members.text("signedPayload", "must be a JWS signed by Apple") { !$0.isEmpty }
        }
    }
}
