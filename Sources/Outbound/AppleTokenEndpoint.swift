// Calls two endpoints of Apple. The token endpoint exchanges an authorization code for a refresh token, which is then
// sealed (encrypted). The revoke endpoint revokes a refresh token.

import Crypto
package import Foundation
package import Identity
package import JourneyModel
package import Secrets

package struct AppleTokenEndpoint: AppleCodeExchange {
    /// The timeout of an exchange in milliseconds. A sign-in waits for the exchange, and continues without a token
    /// after the timeout.
    static let exchangeTimeoutMilliseconds = 5_000
    static let revokeTimeoutMilliseconds = 10_000
    /// Maximum bytes of a response. A response consists of three tokens and a number.
    static let answerBytesMax = 32_768

    private let http: OutgoingHTTP
    private let tokenURL: URL
    private let revokeURL: URL
    private let clientSecret: AppleClientSecret
    private let seal: FieldEncryption
    private let clock: @Sendable () -> Moment

    /// Creates the endpoint, with the URLs of `APPLE_TOKEN_URL` and `APPLE_REVOKE_URL`.
    package init(
        http: OutgoingHTTP, tokenURL: URL, revokeURL: URL, clientSecret: AppleClientSecret, seal: FieldEncryption,
        clock: @escaping @Sendable () -> Moment
    ) {
        self.http = http
        self.tokenURL = tokenURL
        self.revokeURL = revokeURL
        self.clientSecret = clientSecret
        self.seal = seal
        self.clock = clock
    }

    // MARK: Exchanging

    package func exchange(
        _ authorizationCode: Secret<String>, of identity: AppleIdentity
    ) async -> AppleCodeExchangeOutcome {
        let form = [("grant_type", "authorization_code"), ("code", authorizationCode.reveal())]
        do {
            let answer = try await post(
                form, to: tokenURL, as: identity.clientID, timeoutMilliseconds: Self.exchangeTimeoutMilliseconds)
            guard answer.status == 200 else {
                return .failed(reason: answer.status < 500 ? "refused" : "unreachable")
            }
            return sealed(answer.body, of: identity)
        } catch OutgoingFailure.answerTooLong {
            return .failed(reason: "malformed_answer")
        } catch {
            return .failed(reason: "unreachable")
        }
    }

    /// Seals the refresh token of a token response (RFC 6749, section 5.1), if the response's `id_token` names the
    /// person who signs in.
    ///
    /// If the `id_token` names another person, the refresh token belongs to that person. If it were stored in this
    /// account, deleting this account would sign that person out.
    private func sealed(_ body: [UInt8], of identity: AppleIdentity) -> AppleCodeExchangeOutcome {
        guard let answer = AppleTokenResponse(body) else { return .failed(reason: "malformed_answer") }
        guard answer.subject == identity.subject else { return .failed(reason: "other_subject") }
        guard let sealed = seal.seal(answer.refreshToken, of: Self.owner(identity.subject)) else {
            return .failed(reason: "not_sealed")
        }
        return .sealed(sealed)
    }

    /// Returns the digest of a subject. A refresh token is sealed with this digest as associated data, and can be
    /// opened only with it. A queued revocation therefore contains the digest (`AppleRevocation.subjectDigest`).
    private static func owner(_ subject: String) -> [UInt8] {
        Array(SHA256.hash(data: Data(subject.utf8)))
    }

    // MARK: Revoking

    enum Revoked: Equatable {
        case done
        /// Apple does not know the token, because it was revoked before or has expired.
        case unknownToken
        /// The call must be retried. `reason` is a word for the log.
        case failed(reason: String)
    }

    func revoke(_ revocation: AppleRevocation) async -> Revoked {
        guard let token = seal.open(revocation.sealedRefreshToken, of: revocation.subjectDigest) else {
            return .failed(reason: "sealed_with_another_DATA_KEY")
        }
        let form = [("token", token.reveal()), ("token_type_hint", "refresh_token")]
        do {
            let answer = try await post(
                form, to: revokeURL, as: revocation.clientID, timeoutMilliseconds: Self.revokeTimeoutMilliseconds)
            switch (answer.status, AppleTokenResponse.errorCode(answer.body)) {
            case (200, _): return .done
            // These two errors mean that Apple does not know the token (RFC 6749, section 5.2). Any other error with
            // status 400 means that this server made a mistake, for example sent a wrong client secret.
            case (400, "invalid_grant"?), (400, "invalid_token"?): return .unknownToken
            case (let status, _): return .failed(reason: "status_\(status)")
            }
        } catch let failure as OutgoingFailure {
            return .failed(reason: failure.rawValue)
        } catch {
            return .failed(reason: "no_client_secret")
        }
    }

    private func post(
        _ form: [(String, String)], to url: URL, as clientID: String, timeoutMilliseconds: Int
    ) async throws -> OutgoingResponse {
        let secret = try await clientSecret.text(
            for: clientID, atSecondsSince1970: clock().millisecondsSinceEpoch / 1000)
        let body = FormBody.text([("client_id", clientID), ("client_secret", secret.reveal())] + form)
        return try await http.send(
            OutgoingRequest(
                .post, url,
                fields: [("Content-Type", "application/x-www-form-urlencoded"), ("Accept", "application/json")],
                body: Array(body.utf8)),
            timeoutMilliseconds: timeoutMilliseconds, answerBytesMax: Self.answerBytesMax)
    }
}

enum FormBody {
    /// Encodes the members as application/x-www-form-urlencoded (URL Standard, section 5.2). Percent-encodes every
    /// character except letters, digits and `*-._`.
    static func text(_ members: [(name: String, value: String)]) -> String {
        members.map { "\(encoded($0.name))=\(encoded($0.value))" }.joined(separator: "&")
    }

    private static let plain = CharacterSet(
        charactersIn: "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789*-._")

    private static func encoded(_ text: String) -> String {
        text.addingPercentEncoding(withAllowedCharacters: plain) ?? ""
    }
}
