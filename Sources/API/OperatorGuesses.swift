// Checks OPS_TOKEN and METRICS_TOKEN in constant time. Wrong tokens are counted per client address, and some of them
// are audited. At the limit, every token from the address is refused without being compared.

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

    /// Checks the request's token with `judge` and returns the result. The audit entry of a wrong token contains
    /// `name`. If the client's address has reached the limit of wrong tokens, throws without calling `judge`.
    ///
    /// The request counts as a wrong guess before `judge` is called. Without this, concurrent requests could make more
    /// guesses than the limit allows. When `judge` has ended:
    ///
    /// - If `judge` returned, the guess no longer counts.
    /// - If `judge` threw because the database cannot be read, the guess no longer counts. The error is rethrown.
    /// - If `judge` threw any other error, the guess stays counted. The error is rethrown.
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
    /// Returns whether the request contains this token. Compares digests of fixed length, so that the duration reveals
    /// neither the bytes nor the length of the token.
    func isShown(by request: Request) -> Bool {
        guard let token = BearerToken.read(from: request.fields) else { return false }
        let digests = [reveal(), token].map { Array(SHA256.hash(data: Array($0.utf8))) }
        return digests[0].equalsInConstantTime(digests[1])
    }
}
