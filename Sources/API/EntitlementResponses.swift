// The responses of GET /native/entitlements, POST /native/purchases and PUT /native/purchases/consent (contract,
// section 9). Equal entitlements are always encoded as equal bytes, so a response with entitlements can have a strong
// ETag.

import Crypto
import HTTP1
import HTTPServer
import JourneyModel
import Purchases

enum EntitlementResponses {
    static func whole(_ entitlements: [Entitlement]) -> Response {
        let json = json(entitlements)
        return whole(json, fields(etag(of: json)))
    }

    static func consent(_ consent: ConsumptionConsent) -> Response {
        var writer = JSONWriter(reservingBytes: 128)
        writer.beginObject()
        writer.name("consumption")
        writer.bool(consent.isGiven)
        writer.member("changed_at", RFC3339.text(of: consent.changedAt))
        writer.endObject()
        return .noStore(writer.bytes)
    }

    /// Returns 412 if If-Match does not match, 304 if If-None-Match matches, and the entitlements in all other cases.
    static func response(_ entitlements: [Entitlement], to request: Request) -> Response {
        let json = json(entitlements)
        let etag = etag(of: json)
        let fields = fields(etag)
        return EntityTag.response(
            to: request, etag, whole: whole(json, fields), notModified: Response(status: .notModified, fields: fields))
    }

    private static func fields(_ etag: String) -> Fields {
        // The content is personal data. No shared cache may store it, and every other cache must revalidate it.
        Fields([("ETag", etag), ("Cache-Control", "private, no-cache")])
    }

    private static func whole(_ json: [UInt8], _ fields: Fields) -> Response {
        var fields = fields
        fields.append("Content-Type", "application/json")
        return Response(status: .ok, fields: fields, body: .bytes(json))
    }

    /// Encodes `{"entitlements":[...]}`, in the order that `PurchaseFacts.entitlements(at:)` returns.
    static func json(_ entitlements: [Entitlement]) -> [UInt8] {
        var writer = JSONWriter(reservingBytes: 64 + 512 * entitlements.count)
        writer.beginObject()
        writer.name("entitlements")
        writer.beginArray()
        for entitlement in entitlements { write(entitlement, &writer) }
        writer.endArray()
        writer.endObject()
        return writer.bytes
    }

    private static func write(_ entitlement: Entitlement, _ writer: inout JSONWriter) {
        writer.beginObject()
        writer.member("product_id", entitlement.productID)
        writer.member("subscription_group_id", entitlement.subscriptionGroupID)
        writer.member("kind", entitlement.kind.wireName)
        writer.member("status", entitlement.status.rawValue)
        writer.name("gives_access")
        writer.bool(entitlement.status.givesAccess)
        writer.member("access_ends_at", entitlement.accessEnds)
        writer.member("purchased_at", entitlement.purchaseDate)
        if let autoRenews = entitlement.autoRenews {
            writer.name("auto_renews")
            writer.bool(autoRenews)
        }
        writer.member("renews_to_product_id", entitlement.renewsToProductID)
        writer.member("ownership", entitlement.ownership == .familyShared ? "family_shared" : "purchased")
        if let offer = entitlement.offer {
            writer.name("offer_type")
            writer.integer(offer.type)
            writer.member("offer_id", offer.identifier)
        }
        writer.name("quantity")
        writer.integer(entitlement.quantity)
        writer.member("environment", entitlement.environment.wireName)
        writer.member("bundle_id", entitlement.bundleID)
        writer.member("transaction_id", entitlement.transactionID)
        writer.member("original_transaction_id", entitlement.originalTransactionID)
        writer.endObject()
    }

    private static func etag(of json: [UInt8]) -> String {
        "\"\(SHA256.hash(data: json).prefix(16).hexadecimal)\""
    }
}

extension AppStoreEnvironment {
    fileprivate var wireName: String {
        switch self {
        case .production: "production"
        case .sandbox: "sandbox"
        case .xcode: "xcode"
        case .localTesting: "local_testing"
        }
    }
}

extension TransactionFact.Kind {
    fileprivate var wireName: String {
        switch self {
        case .autoRenewable: "auto_renewable"
        case .nonRenewing: "non_renewing"
        case .nonConsumable: "non_consumable"
        case .consumable: "consumable"
        }
    }
}
