// Digests of values that are easily guessed, for example phone numbers, codes of six digits, and addresses. Nobody must
// be able to recover these values from the database alone.
//
// A digest is HMAC-SHA256 with a key that is derived from the signing key and never stored. Each purpose has its own
// key, so that digests of different purposes cannot be linked.

package import Crypto
import Foundation
package import JourneyModel
import Secrets

package struct KeyedHashes: Sendable {
    private let phoneKey: SymmetricKey
    private let codeKey: SymmetricKey
    private let addressKey: SymmetricKey
    private let driverKey: SymmetricKey
    private let logKey: SymmetricKey
    private let settingKey: SymmetricKey
    private let sessionCodeKey: SymmetricKey
    private let serviceEventKey: SymmetricKey

    /// Derives the keys from the signing key, not from `DATA_KEY`. The reason is the tombstones of deleted drivers: a
    /// tombstone has a digest of the driver's id, by which the server recognises and rejects the driver's tokens.
    ///
    /// If the signing key is replaced, the tombstones no longer match, but all old tokens are invalid too. With keys
    /// derived from `DATA_KEY`, a change of `DATA_KEY` would leave tombstones that no longer match, and old tokens that
    /// are still valid.
    package init(signingKey: SigningKey) {
        self.init(secret: signingKey.secretBytes.reveal())
    }

    package init(secret: SymmetricKey) {
        // RFC 5869; `info` names the purpose.
        func key(_ purpose: String) -> SymmetricKey {
            HKDF<SHA256>.deriveKey(
                inputKeyMaterial: secret, info: Data("dwell \(purpose) v1".utf8), outputByteCount: 32)
        }
        phoneKey = key("phone number")
        codeKey = key("one-time code")
        addressKey = key("client address")
        driverKey = key("erased driver")
        logKey = key("driver in the log")
        settingKey = key("secret setting")
        sessionCodeKey = key("session code")
        serviceEventKey = key("service event")
    }

    /// Returns the digest of a phone number. Every digest that this type returns as an array has 32 bytes.
    package func phone(_ number: PhoneNumber) -> [UInt8] { Self.digest(number.e164, phoneKey) }

    /// Returns the digest of a code for that phone number. The same code for another phone number has another digest.
    package func code(_ code: String, for number: PhoneNumber) -> [UInt8] {
        // The text is unambiguous, because a phone number contains no colon.
        Self.digest("\(number.e164):\(code)", codeKey)
    }

    /// Returns the digest of a session's verification code. The digest is made from the text `code:sessionID`. `code`
    /// always has six digits, so no other code and session have the same text.
    package func sessionCode(_ code: String, of sessionID: String) -> [UInt8] {
        Self.digest("\(code):\(sessionID)", sessionCodeKey)
    }

    /// Returns the digest of an address. For an IPv6 address, returns the digest of its /64 network, because all
    /// addresses of such a network usually belong to one client.
    package func address(_ address: String) -> [UInt8] { network(AddressGroup.name(of: address)) }

    /// Returns the digest of a name in `AddressNetworks`.
    package func network(_ name: String) -> [UInt8] { Self.digest(name, addressKey) }

    /// Returns the digest of the phone number's leading digits (`PhoneNumber.prefix`), which many phone numbers share.
    package func prefix(of number: PhoneNumber) -> [UInt8] { Self.digest(number.prefix + "...", phoneKey) }

    /// Returns the name of a driver in log lines: 16 hexadecimal digits, which change only if the signing key changes.
    ///
    /// Without the signing key, nobody can find the driver by this name. No table contains the name, and it differs
    /// from all other digests of the driver.
    package func logName(_ driverID: String) -> String {
        Self.digest(driverID, logKey).prefix(8).hexadecimal
    }

    /// Returns the name under which Redis stores an event that a service posted: 32 hexadecimal digits. `text` must
    /// identify both the event and its driver, because events of two drivers need different names.
    package func serviceEvent(_ text: String) -> String {
        Self.digest(text, serviceEventKey).prefix(16).hexadecimal
    }

    /// Returns a digest of the secret setting `name`: 16 hexadecimal digits, or an empty text for an empty setting. Two
    /// servers compare these digests to find out whether they have the same secret.
    package func settingName(_ secret: String, of name: String) -> String {
        secret.isEmpty ? "" : Self.digest("\(name)=\(secret)", settingKey).prefix(8).hexadecimal
    }

    package func driver(_ driver: DriverID) -> [UInt8] { Self.digest(driver.rawValue, driverKey) }

    private static func digest(_ text: String, _ key: SymmetricKey) -> [UInt8] {
        Array(HMAC<SHA256>.authenticationCode(for: Data(text.utf8), using: key))
    }
}

extension [UInt8] {
    /// Compares two byte arrays in a time that depends only on their lengths.
    package func equalsInConstantTime(_ other: [UInt8]) -> Bool {
        guard count == other.count else { return false }
        return zip(self, other).reduce(0 as UInt8) { $0 | ($1.0 ^ $1.1) } == 0
    }
}

/// Returns SHA-256 (32 bytes) of an unguessable value, for example a refresh token or a nonce.
package func plainDigest(_ text: String) -> [UInt8] {
    Array(SHA256.hash(data: Data(text.utf8)))
}
