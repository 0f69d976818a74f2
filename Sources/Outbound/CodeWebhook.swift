// One call of the webhook that delivers one-time codes (contract, section 6): its body, its signature, and the meaning
// of the response. WebhookCodeDelivery retries failed calls.

import Crypto
package import Foundation
import Identity
import JourneyModel
package import Secrets

package struct CodeWebhook: Sendable {
    static let timeoutMilliseconds = 10_000
    /// Maximum bytes of a response. Only the status of the response is used.
    static let answerBytesMax = 65_536

    enum Outcome: Equatable {
        case delivered
        /// A later call may succeed, because no response arrived or the status was 5xx, 408, 429 or a redirect.
        /// Redirects are not followed.
        case tryAgain(reason: String)
        /// The webhook rejected this call, and would reject the same call again.
        case refused(status: Int)
    }

    private let http: OutgoingHTTP
    private let url: URL
    private let key: Secret<SymmetricKey>

    /// Creates the webhook with the values of `OTP_WEBHOOK_URL` and `OTP_WEBHOOK_SECRET`.
    package init(http: OutgoingHTTP, url: URL, secret: Secret<String>) {
        self.http = http
        self.url = url
        key = Secret(SymmetricKey(data: Data(secret.reveal().utf8)))
    }

    func post(_ code: OutgoingCode, at now: Moment) async -> Outcome {
        let body = Self.body(code, at: now)
        let request = OutgoingRequest(
            .post, url,
            fields: [
                ("Content-Type", "application/json"),
                ("X-Dwell-Signature", signature(of: body, atSecondsSince1970: now.millisecondsSinceEpoch / 1000)),
            ],
            body: body)
        do throws(OutgoingFailure) {
            let answer = try await http.send(
                request, timeoutMilliseconds: Self.timeoutMilliseconds, answerBytesMax: Self.answerBytesMax)
            switch answer.status {
            case 200..<300: return .delivered
            case 400..<500 where answer.status != 408 && answer.status != 429: return .refused(status: answer.status)
            default: return .tryAgain(reason: "status_\(answer.status)")
            }
        } catch {
            return .tryAgain(reason: error.rawValue)
        }
    }

    /// In the body, `expires_in` is the number of whole seconds until the code expires. A retry needs a new body,
    /// because less time is left.
    static func body(_ code: OutgoingCode, at now: Moment) -> [UInt8] {
        var json = JSONWriter()
        json.beginObject()
        json.name("phone")
        json.string(code.phone.reveal())
        json.name("code")
        json.string(code.code.reveal())
        json.name("expires_in")
        json.integer(max(1, code.expiresAt.milliseconds(since: now) / 1000))
        json.endObject()
        return json.bytes
    }

    /// Returns the value of `X-Dwell-Signature`. The signature covers the time of the call, so the receiver can reject
    /// replays.
    func signature(of body: [UInt8], atSecondsSince1970 now: Int64) -> String {
        var hmac = HMAC<SHA256>(key: key.reveal())
        hmac.update(data: Data("\(now).".utf8))
        hmac.update(data: body)
        return "t=\(now),v1=\(hmac.finalize().hexadecimal)"
    }
}
