// The limits on a driver's requests to routes other than those for events: one limit for each kind of change and one
// for reading (contract, section 4). They use the same admission as events, with and without Redis.

import HTTP1
import HTTPServer
import Identity
import JourneyModel
import RateLimiting

struct DriverLimit: Sendable {
    let admission: any Admission

    /// Returns the handler with the limit applied: each request with a valid token counts, whatever its result, and its
    /// response carries the quota. Every response of the route carries the policy (`API.surface`).
    func limited(_ limitClass: RateLimitClass, _ handler: @escaping CallerHandler) -> CallerHandler {
        { request, caller throws(ProblemAnswer) in
            let decision = await admission.admit(.ofOneRequest(limitClass, by: caller.driver))
            let quota = RateLimitFields.rateLimit([(limitClass, decision.quota)])
            do throws(ProblemAnswer) {
                guard decision.verdict != .refused else { throw .tooManyRequests(decision.quota) }
                var response = try await handler(request, caller)
                if let quota { response.fields.append("RateLimit", quota) }
                return response
            } catch {
                var answer = error
                if let quota { answer.fields.append("RateLimit", quota) }
                throw answer
            }
        }
    }

    /// Counts one request as `times` further requests, even if this exceeds the limit.
    func charge(_ driver: DriverID, _ limitClass: RateLimitClass, times: Int) {
        guard times > 0 else { return }
        admission.charge(.ofOneRequest(limitClass, by: driver), times: times)
    }
}
