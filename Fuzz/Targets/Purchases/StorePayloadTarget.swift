// Reads arbitrary bytes as Apple's signed data about purchases. The parsed transactions and renewals are applied in the
// given and in the reverse order. Both orders must lead to the same stored facts and, at several times, the same
// entitlements.
//
// The target StoreToken covers the signature.
//
// Input: one line for each payload. The first character of a line is the kind of the payload (T transaction, R renewal,
// N notification). The rest of the line is the payload's JSON.

import Foundation
import JourneyModel
import Purchases

func fuzzStorePayload(_ input: [UInt8]) throws(Finding) {
    var transactions: [TransactionFact] = []
    var renewals: [RenewalFact] = []
    for line in input.split(separator: UInt8(ascii: "\n"), maxSplits: 16) {
        guard let kind = line.first, let signed = signedPayload(Array(line.dropFirst())) else { continue }
        switch kind {
        case UInt8(ascii: "T"):
            guard let fact = try? TransactionFact(signed) else { continue }
            // Compare only the first transaction with Foundation's result, because Foundation's parser takes most of
            // the time.
            if transactions.isEmpty { try compare(fact, line.dropFirst()) }
            transactions.append(fact)
        case UInt8(ascii: "R"):
            guard let fact = try? RenewalFact(signed) else { continue }
            renewals.append(fact)
        default:
            guard let envelope = try? NotificationEnvelope(signed.claims) else { continue }
            try require(envelope.notificationUUID.utf8.count == 36, "A UUID of another length.")
        }
    }

    var facts = PurchaseFacts()
    for fact in transactions { facts.add(fact) }
    for fact in renewals { facts.add(fact) }
    var reversed = PurchaseFacts()
    for fact in renewals.reversed() { reversed.add(fact) }
    for fact in transactions.reversed() { reversed.add(fact) }
    try require(facts == reversed, "The facts depend on the order.")
    for fact in transactions { try require(!reversed.add(fact), "A fact is news for the second time.") }

    var times: Set<Moment> = [Moment(millisecondsSinceEpoch: .min), Moment(millisecondsSinceEpoch: .max)]
    for fact in transactions.prefix(8) {
        times.formUnion([fact.purchaseDate, fact.signedDate, fact.expiresDate ?? fact.purchaseDate])
    }
    for time in times {
        let entitlements = facts.entitlements(at: time)
        try require(entitlements == reversed.entitlements(at: time), "The entitlements depend on the order.")
        let names = Set(
            entitlements.map { [$0.environment.rawValue, $0.bundleID, $0.subscriptionGroupID ?? "", $0.productID] })
        try require(names.count == entitlements.count, "A product twice.")
        for entitlement in entitlements where entitlement.status.givesAccess {
            try require(entitlement.accessEnds.map { $0 > time } ?? true, "Access that is over.")
        }
    }
}

/// Returns a token with these claims and a meaningless signature. Returns nil if the claims are not a JSON object with
/// a `signedDate`.
private func signedPayload(_ claims: [UInt8]) -> SignedPayload? {
    let text = Data(claims).base64EncodedString()
        .replacing("+", with: "-").replacing("/", with: "_").replacing("=", with: "")
    return try? SignedPayload("e30." + text + ".AAAA")
}

private func compare(_ fact: TransactionFact, _ json: ArraySlice<UInt8>) throws(Finding) {
    // Do not compare JSON with a byte order mark, because Foundation removes it from the beginning of a member's name.
    guard !String(decoding: json, as: UTF8.self).unicodeScalars.contains("\u{FEFF}") else { return }
    // Foundation refuses numbers outside the range of Double. JourneyModel accepts them, because it keeps every number
    // as text. The target JSONText checks which texts are accepted as JSON.
    guard let object = try? JSONSerialization.jsonObject(with: Data(json)) else { return }
    guard let members = object as? [String: Any] else { throw Finding("Not an object.") }
    try require(members["transactionId"] as? String == fact.transactionID, "Another transaction.")
    try require(members["productId"] as? String == fact.productID, "Another product.")
    try require(
        (members["signedDate"] as? NSNumber)?.int64Value == fact.signedDate.millisecondsSinceEpoch, "Another date.")
    try require((members["revocationDate"] as? NSNumber != nil) == (fact.revocation != nil), "Revoked, or not.")
}
