// Sample sign-ins, and test doubles of the external services that sign-ins call.

package import JourneyModel
package import Secrets
import Synchronization

@testable package import Identity

extension Moment {
    /// The time of the first sign-in in most tests.
    package static let signedIn = Moment(millisecondsSinceEpoch: 1_770_091_506_000)
}

extension AppleIdentity {
    /// Returns an identity. If `token` is nil, the nonce is also the token.
    package static func sample(
        _ subject: String, nonce: String, token: String? = nil, email: String? = nil, isVerified: Bool = true
    ) -> AppleIdentity {
        AppleIdentity(
            subject: subject, clientID: "app.dwell", email: email, isEmailVerified: isVerified,
            isPrivateEmail: false, nonceDigest: plainDigest(nonce), tokenDigest: plainDigest(token ?? nonce),
            expiresAtSeconds: Moment.signedIn.millisecondsSinceEpoch / 1000 + 600)
    }
}

extension RequestOrigin {
    package static func at(
        _ now: Moment, address: String = "192.0.2.77", userAgent: String? = "DwellApp/7 (iPhone)"
    ) -> RequestOrigin {
        RequestOrigin(address: address, requestID: "request-of-the-test", userAgent: userAgent, at: now)
    }
}

/// Keeps the codes, and does not send them to phones.
package final class DeliveredCodes: CodeDelivery {
    private let codes = Mutex<[(phone: String, code: String)]>([])

    package init() {}

    package func deliver(_ code: OutgoingCode) {
        codes.withLock { $0.append((code.phone.reveal(), code.code.reveal())) }
    }

    package func last(to phone: String) -> String {
        codes.withLock { $0.last { $0.phone == phone }?.code ?? "none" }
    }

    package var count: Int { codes.withLock { $0.count } }
}

package final class ScriptedExchange: AppleCodeExchange {
    private let outcome: AppleCodeExchangeOutcome
    private let meanwhile: @Sendable () async -> Void

    /// Runs `meanwhile` during the request to Apple, and then returns `outcome`.
    package init(
        _ outcome: AppleCodeExchangeOutcome = .sealed(Array("sealed apple refresh token".utf8)),
        meanwhile: @escaping @Sendable () async -> Void = {}
    ) {
        self.outcome = outcome
        self.meanwhile = meanwhile
    }

    package func exchange(_ authorizationCode: Secret<String>, of identity: AppleIdentity) async
        -> AppleCodeExchangeOutcome
    {
        await meanwhile()
        return outcome
    }
}
