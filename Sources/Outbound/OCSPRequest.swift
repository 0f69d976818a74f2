// One request to an OCSP responder (RFC 6960, appendix A). Plain http is usual and sufficient, because the response is
// signed.

package import Foundation

package enum OCSPRequest {
    static let timeoutMilliseconds = 8_000
    /// The maximum bytes of a response. A response including its certificates has about 3 kB.
    static let answerBytesMax = 65_536

    /// Returns the response in DER, or nil when no response with status 200 arrived.
    package static func send(_ request: [UInt8], to url: URL, _ http: OutgoingHTTP) async -> [UInt8]? {
        let answer = try? await http.send(
            OutgoingRequest(
                .post, url,
                fields: [("Content-Type", "application/ocsp-request"), ("Accept", "application/ocsp-response")],
                body: request),
            timeoutMilliseconds: timeoutMilliseconds, answerBytesMax: answerBytesMax)
        return answer?.status == 200 ? answer?.body : nil
    }
}
