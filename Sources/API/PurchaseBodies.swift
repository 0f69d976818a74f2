// The bodies of the purchase routes (contract, section 9). Only their form is checked here. The purchase service
// verifies the signatures.

import HTTPServer
import JourneyModel
import Purchases

/// The body of POST /native/purchases.
enum PurchaseBody {
    /// The `jwsRepresentation` of a StoreKit 2 transaction. For a subscription, `renewal` is the `jwsRepresentation` of
    /// the renewal info.
    case signed(transaction: String, renewal: String?)
    /// The ids of a purchase, sent by an app that does not use StoreKit 2.
    case claimed(PurchaseClaim)

    static func decode(_ request: Request) throws(ProblemResponse) -> PurchaseBody {
        try JSONBody.decode(request) { members in
            if members.value("signed_transaction") == nil, members.value("transactionId") != nil {
                return claim(&members)
            }
            members.require("signed_transaction")
            let transaction = members.text("signed_transaction", "must be a JWS signed by Apple") { !$0.isEmpty }
            let renewal = members.text("signed_renewal_info", "must be a JWS signed by Apple") { !$0.isEmpty }
            return transaction.map { .signed(transaction: $0, renewal: renewal) }
        }
    }

    private static func claim(_ members: inout MemberReader) -> PurchaseBody? {
        func id(_ name: String) -> String? {
            members.require(name)
            return members.text(name, "must be 1 to 64 digits") { text in
                (1...64).contains(text.utf8.count) && text.utf8.allSatisfy(\.isASCIIDigit)
            }
        }
        let transaction = id("transactionId")
        let original = id("originalTransactionId")
        members.require("productId")
        let product = members.text("productId", charactersMax: 255)
        guard let transaction, let original, let product else { return nil }
        return .claimed(
            PurchaseClaim(transactionID: transaction, productID: product, originalTransactionID: original))
    }
}

/// The body of PUT /native/purchases/consent.
enum ConsentBody {
    /// Returns whether the driver lets the server tell Apple how the driver used a purchase (consumption information).
    static func decode(_ request: Request) throws(ProblemResponse) -> Bool {
        try JSONBody.decode(request) { members in
            members.require("consumption")
            guard let value = members.value("consumption") else { return nil }
            if case .bool(let consumption) = value { return consumption }
            members.refuse("consumption", "must be true or false")
            return nil
        }
    }
}

/// The body of POST /apple/store-notifications, with member names in Apple's spelling.
enum StoreNotificationBody {
    static func decode(_ request: Request) throws(ProblemResponse) -> String {
        try JSONBody.decode(request) { members in
            members.require("signedPayload")
            return members.text("signedPayload", "must be a JWS signed by Apple") { !$0.isEmpty }
        }
    }
}
