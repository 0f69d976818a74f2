// One deletion in the list that `dwell driver erasures` prints: the time, the keyed digest of the driver's id, and the
// receipt. Without the signing key, the digest identifies no one.

package import JourneyModel

/// A recorded deletion. Its text form has three parts, separated by spaces: the time, the digest in 64 hexadecimal
/// digits, and the id of the receipt. If `receipt` is nil, the third part is `-`.
package struct RecordedErasure: Hashable, Sendable {
    /// HMAC of the driver's id (KeyedHashes), 32 bytes.
    package var digest: [UInt8]
    package var at: Moment
    /// The id of the deletion's receipt. The receipt is found by the time of the deletion. Nil if no receipt has that
    /// time, or if more than one receipt has it.
    package var receipt: String?

    package init(digest: [UInt8], at moment: Moment, receipt: String?) {
        self.digest = digest
        at = moment
        self.receipt = receipt
    }

    package var line: String {
        "\(RFC3339.text(of: at)) \(digest.hexadecimal) \(receipt ?? "-")"
    }

    package init?(line: some StringProtocol) {
        let words = line.split(separator: " ")
        guard words.count == 3, let at = RFC3339.moment(from: String(words[0])), words[1].utf8.count == 64 else {
            return nil
        }
        let digits = words[1].compactMap(\.hexDigitValue)
        guard digits.count == 64 else { return nil }
        let digest = stride(from: 0, to: 64, by: 2).map { UInt8(digits[$0] << 4 | digits[$0 + 1]) }
        self.init(digest: digest, at: at, receipt: words[2] == "-" ? nil : String(words[2]))
    }
}

/// Deletions that are recorded in another database or in a list, but not in this database.
package struct MissingErasures: Sendable {
    /// Deleted drivers whose data a restore brought back, the oldest deletion first.
    package var drivers: [(driver: DriverID, erasure: RecordedErasure)] = []
    /// The other missing deletions: this database has no data of these drivers that is older than the deletion. Nothing
    /// needs to be deleted, but the drivers' tokens must be rejected.
    package var withoutDriver: [RecordedErasure] = []

    package init() {}
}
