// Formats a driver's purchases as text or as JSON: the entitlements, the reason for each entitlement, and what Apple
// signed. Its functions are pure.

import JourneyModel
import Purchases
import SQLiteStore
import SharedTables

struct PurchaseText {
    var driver: DriverID
    var records: [PurchaseRecord]
    var facts: PurchaseFacts
    /// The driver's consent to consumption information; nil if the driver was never asked.
    var consent: ConsumptionConsent?
    var now: Moment

    private var entitlements: [Entitlement] { facts.entitlements(at: now) }

    var text: String {
        guard !records.isEmpty else { return "\(escaped(driver.rawValue)) has no purchases" }
        let verdicts = entitlements.map { entitlement in
            [
                "\(escaped(entitlement.productID))  \(entitlement.status.rawValue)"
                    + (entitlement.environment == .production ? "" : "  (\(entitlement.environment.rawValue))"),
                "  \(Self.why(entitlement, facts))",
            ].joined(separator: "\n")
        }
        return (verdicts + records.map(purchase) + [consentText]).joined(separator: "\n\n")
    }

    private var consentText: String {
        guard let consent else { return "consumption information: never asked for consent" }
        let word = consent.isGiven ? "given" : "withdrawn"
        return "consumption information: consent \(word) \(RFC3339.text(of: consent.changedAt))"
    }

    /// Returns how the server answered Apple's request for consumption information.
    private static func answer(_ notification: PurchaseRecord.Notification) -> String {
        guard let consumption = notification.consumption else { return "" }
        switch consumption.outcome {
        case .answered: return ", answered \(RFC3339.text(of: consumption.at))"
        case .noConsent: return ", not answered: no consent"
        case .tooLate: return ", not answered: Apple was not reached within 12 hours"
        case .rejected: return ", not answered: Apple did not accept the answer"
        }
    }

    /// Returns one sentence with the purchase data that determines the entitlement's status.
    static func why(_ entitlement: Entitlement, _ facts: PurchaseFacts) -> String {
        let transaction = "transaction \(escaped(entitlement.transactionID))"
        let end = entitlement.accessEnds.map(RFC3339.text(of:)) ?? "an unknown time"
        let renewal = facts.renewals[
            SubscriptionKey(
                environment: entitlement.environment, originalTransactionID: entitlement.originalTransactionID)]
        switch entitlement.status {
        case .active:
            return entitlement.accessEnds == nil
                ? "\(transaction) has no end and was not refunded" : "\(transaction) is paid until \(end)"
        case .grace: return "the renewal after \(transaction) was not charged; Apple grants access until \(end)"
        case .billingRetry:
            return "the renewal after \(transaction) was not charged; access ended at \(end), Apple keeps trying"
        case .expired:
            let reason =
                switch renewal?.expirationIntent {
                case 1: ": cancelled"
                case 2: ": it could not be charged"
                case 3: ": a higher price was not accepted"
                case 4: ": the product was not for sale"
                default: ""
                }
            return "\(transaction) ended at \(end)\(reason)"
        case .revoked: return "\(transaction) is no longer shared since \(end)"
        case .refunded: return "Apple refunded \(transaction) at \(end)"
        }
    }

    private func purchase(_ record: PurchaseRecord) -> String {
        var lines = [
            "purchase \(escaped(record.key.originalTransactionID)) (\(record.key.environment.rawValue)), "
                + Self.ownership(record)
        ]
        for fact in transactions(of: record) {
            var words = [
                "transaction \(escaped(fact.transactionID))", escaped(fact.productID),
                "bought \(RFC3339.text(of: fact.purchaseDate))",
            ]
            if let expires = fact.expiresDate { words.append("until \(RFC3339.text(of: expires))") }
            if let revocation = fact.revocation {
                words.append(
                    "\(revocation.kind == .refund ? "refunded" : "revoked") \(RFC3339.text(of: revocation.date))")
            }
            if fact.isUpgraded { words.append("upgraded") }
            switch fact.ownership {
            case .purchased: break
            case .familyShared: words.append("family shared")
            case .other(let text): words.append("ownership \(escaped(text))")
            }
            lines.append("  " + words.joined(separator: ", ") + ", signed \(RFC3339.text(of: fact.signedDate))")
        }
        if let fact = facts.renewals[record.key] {
            let renews = fact.autoRenews ? "renews to \(escaped(fact.autoRenewProductID))" : "does not renew"
            lines.append(
                "  renewal: \(renews)\(fact.isInBillingRetry ? ", billing retry" : "")"
                    + "\(fact.gracePeriodExpiresDate.map { ", grace until \(RFC3339.text(of: $0))" } ?? "")"
                    + ", signed \(RFC3339.text(of: fact.signedDate))")
        }
        for notification in record.notifications {
            let type = [notification.type, notification.subtype].compactMap { $0 }.map(escaped).joined(separator: " ")
            lines.append(
                "  notification \(type), received \(RFC3339.text(of: notification.receivedAt))\(Self.answer(notification))"
            )
        }
        return lines.joined(separator: "\n")
    }

    private static func ownership(_ record: PurchaseRecord) -> String {
        if let moved = record.movedAt { return "moved here by an operator at \(RFC3339.text(of: moved))" }
        return record.isNamed ? "named by its account token" : "sent by this driver first"
    }

    private func transactions(of record: PurchaseRecord) -> [TransactionFact] {
        facts.transactions.values.filter { $0.subscription == record.key }
            .sorted { ($0.purchaseDate, $0.transactionID) > ($1.purchaseDate, $1.transactionID) }
    }

    var json: String {
        var writer = JSONWriter(reservingBytes: 4096)
        func member(_ name: String, _ text: String?) {
            writer.name(name)
            if let text { writer.string(text) } else { writer.null() }
        }
        func payload(_ payload: [UInt8]) {
            if let json = try? JSONValue.parse(payload) { writer.value(json) } else { writer.null() }
        }
        writer.beginObject()
        member("driver", driver.rawValue)
        writer.name("entitlements")
        writer.beginArray()
        for entitlement in entitlements {
            writer.beginObject()
            member("product_id", entitlement.productID)
            member("environment", entitlement.environment.rawValue)
            member("status", entitlement.status.rawValue)
            member("access_ends_at", entitlement.accessEnds.map(RFC3339.text(of:)))
            member("why", Self.why(entitlement, facts))
            writer.endObject()
        }
        writer.endArray()
        writer.name("purchases")
        writer.beginArray()
        for record in records {
            writer.beginObject()
            member("original_transaction_id", record.key.originalTransactionID)
            member("environment", record.key.environment.rawValue)
            member("owner", record.movedAt != nil ? "moved" : record.isNamed ? "account_token" : "first_sender")
            writer.name("transactions")
            writer.beginArray()
            for fact in transactions(of: record) { payload(fact.payload) }
            writer.endArray()
            writer.name("renewal")
            if let renewal = facts.renewals[record.key] { payload(renewal.payload) } else { writer.null() }
            writer.name("notifications")
            writer.beginArray()
            for notification in record.notifications {
                writer.beginObject()
                member("notification_uuid", notification.uuid)
                member("type", notification.type)
                member("subtype", notification.subtype)
                member("signed_at", RFC3339.text(of: notification.signedAt))
                member("received_at", RFC3339.text(of: notification.receivedAt))
                member("consumption_outcome", notification.consumption?.outcome.rawValue)
                writer.endObject()
            }
            writer.endArray()
            writer.endObject()
        }
        writer.endArray()
        writer.name("consumption_consent")
        if let consent {
            writer.beginObject()
            writer.name("given")
            writer.bool(consent.isGiven)
            member("changed_at", RFC3339.text(of: consent.changedAt))
            writer.endObject()
        } else {
            writer.null()
        }
        writer.endObject()
        return String(decoding: writer.bytes, as: UTF8.self)
    }
}
