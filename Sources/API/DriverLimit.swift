// Limits a driver's requests to the routes that take no events (contract, section 4). There is one limit for all reads,
// and one for each kind of change, such as `devices`. The rate limiter for events also counts these requests, in Redis
// or in this process.

import HTTP1
import HTTPServer
import Identity
import JourneyModel
import RateLimiting

struct DriverLimit: Sendable {
    let admission: any Admission
    let reads = RequestsUnderWay()

    /// Returns a responder that starts a task, checks the limit and calls the handler. Each request with a valid token
    /// counts towards the limit, whatever its result.
    ///
    /// The responder adds the driver's quota to the response. It does not add the limit's policy, because `API.surface`
    /// adds the policy to all responses of the route.
    ///
    /// If the limit is `reads` and is turned on, the number of reads that the driver has under way is limited too.
    func limited(
        _ limitClass: RateLimitClass, form: ProblemForm = .plain, _ handler: @escaping CallerHandler
    ) -> CallerResponder {
        { request, caller in
            .work {
                let decision = await admission.admit(.ofOneRequest(limitClass, by: caller.driver))
                var response: Response
                do throws(ProblemResponse) {
                    guard decision.verdict != .refused else { throw .tooManyRequests(decision.quota) }
                    let isCounted = limitClass == .reads && decision.quota.limit > 0
                    let underWay = try isCounted ? reads.begin(caller.driver) : nil
                    defer { withExtendedLifetime(underWay) {} }
                    response = try await handler(request, caller)
                } catch {
                    response = error.response(requestID: request.id, form)
                }
                response.rateLimit = RateLimitValues.rateLimit([(limitClass, decision.quota)])
                return response
            }
        }
    }

    /// Whether the driver has used up the limit in the current window. Reads the quota that this process keeps, and
    /// does not ask Redis.
    func isExhausted(by driver: DriverID, _ limitClass: RateLimitClass) -> Bool {
        admission.quota(of: driver, in: limitClass).isExhausted
    }

    /// Charges an expensive request `times` additional times, even if the driver then exceeds the limit.
    func charge(_ driver: DriverID, _ limitClass: RateLimitClass, times: Int) {
        guard times > 0 else { return }
        admission.charge(.ofOneRequest(limitClass, by: driver), times: times)
    }
}
