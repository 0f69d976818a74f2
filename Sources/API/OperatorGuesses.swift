// Checks the tokens on the operator's routes (OPS_TOKEN, METRICS_TOKEN) in constant time. Wrong tokens are counted per
// client address, and some of them are audited. If an address has reached the limit of wrong tokens, every token from
// it is refused without being compared.

import Crypto
import HTTPServer
package import Identity
import JourneyModel
package import RateLimiting
import Secrets

package struct OperatorGuesses: Sendable {
    private let admission: any Admission
    private let record: @Sendable (_ token: String, RequestOrigin) async -> Void

    /// - Parameter record: writes an audit entry. It is called at most twice per client address in each window of the
    ///   rate limit.
    package init(
        admission: any Admission, record: @escaping @Sendable (_ token: String, RequestOrigin) async -> Void
    ) {
        self.admission = admission
        self.record = record
    }

    /// Checks the request's token with `judge` and returns the result of `judge`. The audit entry of a wrong token
    /// contains `name`. If the client's address has reached the limit of wrong tokens, throws without calling `judge`.
    ///
    /// The request counts as a wrong guess before `judge` is called, so that concurrent requests cannot make more
    /// guesses than the limit allows. The result of `judge` decides whether it stays counted:
    ///
    /// - If `judge` returns, the guess was right and no longer counts.
    /// - If `judge` throws because the database cannot be read, the token was not judged, and the guess no longer
    ///   counts. The error is rethrown.
    /// - If `judge` throws any other error, the guess was wrong and stays counted. The error is rethrown.
    ///
    /// For a request without a bearer token, `judge` is called but nothing is counted.
    nonisolated(nonsending) func judged<Outcome>(
        _ request: Request, token name: String,
        _ judge: nonisolated(nonsending) () async throws(ProblemResponse) -> Outcome
    ) async throws(ProblemResponse) -> Outcome {
        guard BearerToken.read(from: request.fields) != nil else { return try await judge() }
        let claim = AdmissionClaim.ofOneRequest(.operatorGuesses, fromAddressOf: request)
        let decision = await admission.admit(claim)
        guard decision.verdict != .refused else { throw .tooManyRequests(decision.quota) }
        do throws(ProblemResponse) {
            let outcome = try await judge()
            admission.refund(claim)
            return outcome
        } catch {
            guard error.problem.code != .storeUnavailable else {
                admission.refund(claim)
                throw error
            }
            let quota = decision.quota
            // Two wrong guesses per window are recorded: the first guess, and the guess that reaches the limit.
            if quota.remaining == quota.limit - 1 || quota.remaining == 0, quota.limit > 0 {
                await record(name, request.origin)
            }
            throw error
        }
    }
}

extension Secret<String> {
    /// Returns whether the request contains this token. Compares digests, which have a fixed length. The duration of
    /// the comparison therefore reveals neither the bytes nor the length of the token.
    func isShown(by request: Request) -> Bool {
        guard let token = BearerToken.read(from: request.fields) else { return false }
        let digests = [reveal(), token].map { Array(SHA256.hash(data: Array($0.utf8))) }
        return digests[0].equalsInConstantTime(digests[1])
    }
}
