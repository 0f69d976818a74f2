// The ports of the account services to the outside: delivery of codes, exchange of Apple's authorization codes, and the
// queue of revocations for Apple. AccountStore.swift has the ports to the stores.

package import JourneyModel
package import Secrets

/// The delivery of one-time codes to phones.
package protocol CodeDelivery: Sendable {
    /// Adds the code to a queue of limited length, and does not wait for the delivery. A failed delivery is logged, and
    /// repeated with growing delays until `expiresAt`.
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

/// Exchanges Apple's authorization code for Apple's refresh token. The outcome contains the refresh token in encrypted
/// form.
package protocol AppleCodeExchange: Sendable {
    /// Returns within a time limit. A failure is an outcome and not an error, because the sign-in continues without
    /// Apple's token.
    func exchange(_ authorizationCode: Secret<String>, of identity: AppleIdentity) async -> AppleCodeExchangeOutcome
}

package enum AppleCodeExchangeOutcome: Hashable, Sendable {
    /// Apple's refresh token, sealed by FieldEncryption. The associated data is SHA-256 of Apple's subject. A token
    /// that is copied into another person's row can therefore not be opened.
    ///
    /// The queue of revocations stores this digest instead of the subject. The digest is enough to open the sealed
    /// token.
    case sealed([UInt8])
    /// `reason` is a word for the audit, for example `unreachable`, `refused` or `other_subject`. The words do not
    /// change between releases, and contain no secrets.
    case failed(reason: String)
}

/// The queue of Apple's refresh tokens that must be revoked. The store adds entries, and a loop in each server delivers
/// them to Apple. An entry stays in the queue until Apple confirms the revocation.
///
/// If two servers send the same revocation to Apple, the second request has no effect. An entry identifies a person
/// only by the sealed token and by a digest of Apple's subject.
package protocol AppleRevocationQueue: Sendable {
    /// Of the revocations that are due at `now`, returns the one that became due first. Nil if none is due.
    func nextDue(at now: Moment) async throws(AccountFailure) -> AppleRevocation?

    /// Removes a revocation after Apple has revoked the token, or has answered that it does not know the token.
    func delivered(_ id: Int64, at now: Moment) async throws(AccountFailure)

    /// Counts a failed attempt and schedules the next one.
    func failed(_ id: Int64, tryAgainAt: Moment) async throws(AccountFailure)
}

package struct AppleRevocation: Hashable, Sendable {
    /// The maximum pause, in seconds, between a failure and the next attempt.
    ///
    /// If the time until the next attempt exceeds this pause plus `ServerClocks.differenceMillisecondsMax`, the clock
    /// was set back. The store then treats the revocation as due.
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
