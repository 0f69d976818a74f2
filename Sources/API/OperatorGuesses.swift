// Tokens presented to the operator's routes (OPS_TOKEN, METRICS_TOKEN): compared in constant time; wrong ones are
// charged to the client's address and audited. Beyond the limit no token of that address is checked.

import Crypto
import HTTPServer
package import Identity
import JourneyModel
package import RateLimiting
import Secrets

package struct OperatorGuesses: Sendable {
    private let admission: any Admission
    private let record: @Sendable (_ token: String, RequestOrigin) async -> Void

    /// - Parameter record: writes an audit entry; called at most twice for each address and window.
    package init(
        admission: any Admission, record: @escaping @Sendable (_ token: String, RequestOrigin) async -> Void
    ) {
        self.admission = admission
        self.record = record
    }

    /// Returns what `judge` returns, or rethrows its error, which counts as a wrong guess of the token of that
    /// name. Charged before the check, so that concurrent requests gain no extra guesses; a correct one is
    /// refunded. A request without a bearer token is not a guess, and is checked without a charge.
    nonisolated(nonsending) func judged<Outcome>(
        _ request: Request, token name: String,
        _ judge: nonisolated(nonsending) () async throws(ProblemAnswer) -> Outcome
    ) async throws(ProblemAnswer) -> Outcome {
        guard BearerToken.read(from: request.fields) != nil else { return try await judge() }
        let claim = AdmissionClaim.ofOneRequest(
            .operatorGuesses, by: DriverID("address:" + AddressGroup.name(of: request.remoteAddress)))
        let decision = await admission.admit(claim)
        guard decision.verdict != .refused else { throw .tooManyRequests(decision.quota) }
        do throws(ProblemAnswer) {
            let outcome = try await judge()
            admission.refund(claim)
            return outcome
        } catch {
            let quota = decision.quota
            // Recorded for the first wrong guess of a window, and for the one that fills it.
            if quota.remaining == quota.limit - 1 || quota.remaining == 0, quota.limit > 0 {
                await record(name, request.origin)
            }
            throw error
        }
    }
}

extension Secret<String> {
    /// Compares digests, which have a fixed length: the timing reveals neither the bytes nor the length.
    func isShown(by request: Request) -> Bool {
        guard let token = BearerToken.read(from: request.fields) else { return false }
        let digests = [reveal(), token].map { Array(SHA256.hash(data: Array($0.utf8))) }
        return digests[0].equalsInConstantTime(digests[1])
    }
}
