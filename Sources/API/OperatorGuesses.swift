// Tokens presented to the operator's routes (OPS_TOKEN, METRICS_TOKEN). They are compared in constant time. Wrong
// tokens are counted by client address and audited. Beyond the limit, tokens from that address are refused unchecked.

import Crypto
import HTTPServer
package import Identity
import JourneyModel
package import RateLimiting
import Secrets

package struct OperatorGuesses: Sendable {
    private let admission: any Admission
    private let record: @Sendable (_ token: String, RequestOrigin) async -> Void

    /// - Parameter record: writes an audit entry. It is called at most twice for each address and window of the limit.
    package init(
        admission: any Admission, record: @escaping @Sendable (_ token: String, RequestOrigin) async -> Void
    ) {
        self.admission = admission
        self.record = record
    }

    /// Returns what `judge` returns, or rethrows its error, which counts as a wrong guess of the token `name`. The
    /// guess is counted before the check, so that concurrent requests gain no extra guesses, and refunded if it is
    /// correct. A request without a bearer token is checked too, but does not count as a guess.
    nonisolated(nonsending) func judged<Outcome>(
        _ request: Request, token name: String,
        _ judge: nonisolated(nonsending) () async throws(ProblemAnswer) -> Outcome
    ) async throws(ProblemAnswer) -> Outcome {
        guard BearerToken.read(from: request.fields) != nil else { return try await judge() }
        let claim = AdmissionClaim.ofOneRequest(.operatorGuesses, fromAddressOf: request)
        let decision = await admission.admit(claim)
        guard decision.verdict != .refused else { throw .tooManyRequests(decision.quota) }
        do throws(ProblemAnswer) {
            let outcome = try await judge()
            admission.refund(claim)
            return outcome
        } catch {
            let quota = decision.quota
            // The first wrong guess of a window and the guess that reaches the limit are recorded.
            if quota.remaining == quota.limit - 1 || quota.remaining == 0, quota.limit > 0 {
                await record(name, request.origin)
            }
            throw error
        }
    }
}

extension Secret<String> {
    /// Returns whether the request presents this token. Compares digests, which have a fixed length, so that the timing
    /// reveals neither the bytes nor the length of the token.
    func isShown(by request: Request) -> Bool {
        guard let token = BearerToken.read(from: request.fields) else { return false }
        let digests = [reveal(), token].map { Array(SHA256.hash(data: Array($0.utf8))) }
        return digests[0].equalsInConstantTime(digests[1])
    }
}
