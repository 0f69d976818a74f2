// What the services of accounts need from outside: codes carried to phones, authorization codes exchanged with Apple,
// and the queue of revocations that Apple is still to be told. (The stores' ports are in AccountStore.swift.)

package import JourneyModel
package import Telemetry

/// Carries one-time codes to phones.
package protocol CodeDelivery: Sendable {
    /// Returns at once, whatever becomes of it: the queue is bounded, tries are repeated with a growing pause until
    /// `expiresAt`, and nothing of it is logged but that it failed.
    func deliver(_ code: OutgoingCode)
}

package struct OutgoingCode: Sendable {
    /// E.164.
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

/// Exchanges Apple's authorization code for its refresh token, and seals that.
package protocol AppleCodeExchange: Sendable {
    /// Bounded in time. Nothing that goes wrong is an error: the sign-in goes on without a token.
    func exchange(_ authorizationCode: Secret<String>, of identity: AppleIdentity) async -> AppleCodeExchangeOutcome
}

package enum AppleCodeExchangeOutcome: Hashable, Sendable {
    /// Apple's refresh token, sealed; the associated data is SHA-256 of the subject's bytes, so that no sealed token
    /// can be moved to another person's row, and the queue of revocations need not know the subject.
    case sealed([UInt8])
    /// A word for the audit, without a secret: `unreachable`, `refused`, `other_subject`.
    case failed(reason: String)
}

/// Apple refresh tokens that are to be revoked, durable until Apple has said that they are. Filled by the store; read
/// by the one loop that delivers. Nothing in it links to a person but the sealed token itself.
package protocol AppleRevocationQueue: Sendable {
    /// The one that is due first, if any is due at that time.
    func nextDue(at now: Moment) async throws(AccountFailure) -> AppleRevocation?

    /// Takes it off: Apple has revoked it, or it can never be.
    func delivered(_ id: Int64, at now: Moment) async throws(AccountFailure)

    /// To be tried again then; counts the attempt.
    func failed(_ id: Int64, tryAgainAt: Moment) async throws(AccountFailure)
}

package struct AppleRevocation: Hashable, Sendable {
    package var id: Int64
    package var clientID: String
    package var sealedRefreshToken: [UInt8]
    /// The associated data of the seal: SHA-256 of the subject.
    package var subjectDigest: [UInt8]
    /// That have failed so far.
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
