// The settings for calling Apple's App Store Server API.

import Identity

struct PurchaseAPIConfiguration: Sendable {
    var issuerID: String
    var keyID: String
    /// The P-256 key for ES256 signatures.
    var key: SigningKey
    var url: OutgoingURL
    var sandboxURL: OutgoingURL

    /// Returns nil if the issuer id, the key id or the key file is not set. Records a problem if only some of the three
    /// are set.
    init?(_ reading: inout ConfigurationReading) {
        let issuerID = reading.value(of: Variables.purchaseIssuerID)
        let keyID = reading.value(of: Variables.purchaseKeyID)
        let path = reading.value(of: Variables.purchaseKeyFile)
        url = reading.value(of: Variables.purchaseAPIURL)
        sandboxURL = reading.value(of: Variables.purchaseSandboxAPIURL)
        let names = [
            Variables.purchaseIssuerID.name, Variables.purchaseKeyID.name, Variables.purchaseKeyFile.name,
        ]
        let missing = zip(names, [issuerID, keyID, path]).filter { $0.1 == nil }.map(\.0)
        guard missing.count < names.count else { return nil }
        guard let issuerID, let keyID, let path else {
            if !reading.problems.contains(where: { names.contains($0.variable) }) {
                reading.note(missing[0], " is not set; allowed are all of \(names.joined(separator: ", ")), or none")
            }
            return nil
        }
        guard let key = reading.privateKey(Variables.purchaseKeyFile, path) else { return nil }
        (self.issuerID, self.keyID, self.key) = (issuerID, keyID, key)
    }
}
