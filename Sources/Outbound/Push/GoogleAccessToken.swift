// The access token of a Google service account (RFC 7523, section 2.1; RFC 6749, section 5.1). All notifications use
// the same token until shortly before it expires. Only one request for a new token runs at a time.

import Engine
package import Foundation
package import Identity
package import JourneyModel
import Secrets

package actor GoogleAccessToken {
    struct Unavailable: Error, Hashable {
        /// One word for the log.
        var reason: String
        var afterSeconds: Int
    }

    static let timeoutMilliseconds = 10_000
    static let answerBytesMax = 32_768
    /// A token is used only while more than this time is left before it expires.
    static let renewalSeconds: Int64 = 300
    /// The pause after a failed request, unless Google's response sets another pause.
    static let retrySeconds = 10

    private let http: OutgoingHTTP
    private let account: GoogleServiceAccount
    private let url: URL
    private let authorityFile: String?
    private let clock: @Sendable () -> Moment
    private var current: (text: Secret<String>, until: Int64)?
    private var failure: (error: Unavailable, pause: Pause)?
    private var request: Task<Result<Secret<String>, Unavailable>, Never>?

    /// - Parameter url: the account's `token_uri`.
    package init(
        http: OutgoingHTTP, account: GoogleServiceAccount, url: URL, authorityFile: String?,
        clock: @escaping @Sendable () -> Moment
    ) {
        self.http = http
        self.account = account
        self.url = url
        self.authorityFile = authorityFile
        self.clock = clock
    }

    func text() async throws(Unavailable) -> Secret<String> {
        if let current, seconds < current.until - Self.renewalSeconds { return current.text }
        if let failure, !failure.pause.isOver(at: clock()) { throw failure.error }
        let request = request ?? Task { await self.renew() }
        self.request = request
        return try await request.value.get()
    }

    /// Must be called after FCM has rejected the token `text`.
    func reject(_ text: Secret<String>) {
        if current?.text == text { current = nil }
    }

    private func renew() async -> Result<Secret<String>, Unavailable> {
        let result = await fetch()
        request = nil
        switch result {
        case .success(let token):
            (current, failure) = (token, nil)
            return .success(token.text)
        case .failure(let error):
            failure = (error, Pause(from: clock(), milliseconds: Int64(error.afterSeconds) * 1000))
            return .failure(error)
        }
    }

    private func fetch() async -> Result<(text: Secret<String>, until: Int64), Unavailable> {
        func unavailable(_ reason: String, _ seconds: Int? = nil)
            -> Result<(text: Secret<String>, until: Int64), Unavailable>
        {
            .failure(Unavailable(reason: reason, afterSeconds: min(max(seconds ?? Self.retrySeconds, 1), 3600)))
        }
        let now = seconds
        guard let assertion = try? account.assertion(atSecondsSince1970: now) else { return unavailable("not_signed") }
        let form = FormBody.text([
            ("grant_type", "urn:ietf:params:oauth:grant-type:jwt-bearer"), ("assertion", assertion.reveal()),
        ])
        let response: OutgoingResponse
        do throws(OutgoingFailure) {
            response = try await http.send(
                OutgoingRequest(
                    .post, url,
                    fields: [("Content-Type", "application/x-www-form-urlencoded"), ("Accept", "application/json")],
                    body: Array(form.utf8), authorityFile: authorityFile),
                timeoutMilliseconds: Self.timeoutMilliseconds, answerBytesMax: Self.answerBytesMax)
        } catch {
            return unavailable("token_\(error.rawValue)")
        }
        guard response.status == 200 else {
            return unavailable("token_status_\(response.status)", response.retryAfterSeconds)
        }
        guard let json = try? JSONValue.parse(response.body), case .string(let text) = json["access_token"],
            Self.isToken(text), case .number(let lifetime) = json["expires_in"], let lifetime = Int64(lifetime),
            (1...86_400).contains(lifetime)
        else { return unavailable("token_malformed") }
        // A token is used only until `renewalSeconds` before it expires. A token with a lifetime of at most
        // `renewalSeconds` would never be used, so every notification would request a token. Every token is therefore
        // used for at least a minute.
        return .success((Secret(text), now + max(lifetime, Self.renewalSeconds + 60)))
    }

    private var seconds: Int64 { clock().millisecondsSinceEpoch / 1000 }

    /// Returns whether the text can be sent in a request field. The check accepts more than the form of a bearer token
    /// (RFC 6750, section 2.1).
    private static func isToken(_ text: String) -> Bool {
        (1...8192).contains(text.utf8.count) && text.utf8.allSatisfy { (0x21...0x7E).contains($0) }
    }
}
