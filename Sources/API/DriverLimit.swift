// The limits on a driver's requests to routes that are not charged by event: one window for each kind of change,
// one for reading (contract, section 4). Decided by the same admission as events, with and without Redis.

import HTTP1
import HTTPServer
import Identity
import JourneyModel
import RateLimiting

struct DriverLimit: Sendable {
    let admission: any Admission

    /// The handler behind the window: each request of a known caller is charged, whatever its result. Responses
    /// after the token is accepted carry the quota; the policy is on every response of the route (`API.surface`).
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

    /// Charges the cost of a request beyond its first charge, also beyond the limit.
    func charge(_ driver: DriverID, _ limitClass: RateLimitClass, times: Int) {
        guard times > 0 else { return }
        admission.charge(.ofOneRequest(limitClass, by: driver), times: times)
    }
}
