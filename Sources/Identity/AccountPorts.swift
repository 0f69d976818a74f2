// The ports of the account services to the outside: delivery of codes, exchange of Apple's authorization codes, and the
// queue of revocations for Apple. AccountStore.swift has the ports to the stores.

package import JourneyModel
package import Secrets

/// The delivery of one-time codes to phones.
package protocol CodeDelivery: Sendable {
    /// Adds the code to a queue of limited length, and returns immediately without a result. A failed delivery is
    /// repeated with growing delays until `expiresAt`. Only failed deliveries are logged.
    ///
    /// With `OTP_DELIVERY=log`, the code is written to the log instead of being sent.
    func deliver(_ code: OutgoingCode)
}

package struct OutgoingCode: Sendable {
    /// A phone number in E.164 form.
    package var phone: Secret<String>
    /// Six digits.
    package var code: Secret<String>
    package var issuedAt: Moment
    package var expiresAt: Moment

    package init(phone: Secret<String>, code: Secret<String>, issuedAt: Moment, expiresAt: Moment) {
        self.phone = phone
        self.code = code
        self.issuedAt = issuedAt
        self.expiresAt = expiresAt
    }
}

/// The exchange of Apple's authorization code for Apple's refresh token. The outcome contains Apple's refresh token in
/// encrypted form.
package protocol AppleCodeExchange: Sendable {
    /// Returns within a time limit. A failure is an outcome and not an error, because the sign-in continues without
    /// Apple's token.
    func exchange(_ authorizationCode: Secret<String>, of identity: AppleIdentity) async -> AppleCodeExchangeOutcome
}

package enum AppleCodeExchangeOutcome: Hashable, Sendable {
    /// Apple's refresh token, sealed (encrypted, see FieldEncryption). The associated data of the encryption is SHA-256
    /// of Apple's subject, so a sealed token cannot be opened in another person's row.
    ///
    /// The queue of revocations stores only this digest and not the subject, because the digest suffices to open the
    /// sealed token.
    case sealed([UInt8])
    /// `reason` is a word for the audit, for example `unreachable`, `refused` or `other_subject`. The words do not
    /// change between releases, and contain no secrets.
    case failed(reason: String)
}

/// A queue of Apple's refresh tokens that are to be revoked. The store adds entries, and a delivery loop in each server
/// reads them. An entry is stored until Apple confirms the revocation.
///
/// If two servers send the same revocation to Apple, the second request has no effect. An entry identifies a person
/// only by the sealed token and by a digest of Apple's subject.
package protocol AppleRevocationQueue: Sendable {
    /// Returns the revocation that has been due longest at `now`; nil if none is due.
    func nextDue(at now: Moment) async throws(AccountFailure) -> AppleRevocation?

    /// Removes a revocation, because Apple has revoked the token, or because Apple does not know the token.
    func delivered(_ id: Int64, at now: Moment) async throws(AccountFailure)

    /// Counts a failed attempt and schedules the next one.
    func failed(_ id: Int64, tryAgainAt: Moment) async throws(AccountFailure)
}

package struct AppleRevocation: Hashable, Sendable {
    /// The maximum pause between a failure and the next attempt, in seconds.
    ///
    /// If the next attempt is further ahead than this pause plus `ServerClocks.differenceMillisecondsMax`, the clock
    /// was set back after the failure. The store then returns the revocation as due.
    package static let retrySecondsMax = 3_600

    package var id: Int64
    package var clientID: String
    package var sealedRefreshToken: [UInt8]
    /// The associated data of the seal: SHA-256 of the subject.
    package var subjectDigest: [UInt8]
    /// Failed attempts so far.
    package var attemptCount: Int

    package init(
        id: Int64, clientID: String, sealedRefreshToken: [UInt8], subjectDigest: [UInt8], attemptCount: Int
    ) {
        self.id = id
        self.clientID = clientID
        self.sealedRefreshToken = sealedRefreshToken
        self.subjectDigest = subjectDigest
        self.attemptCount = attemptCount
    }
}
