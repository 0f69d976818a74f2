// The limits of a driver's requests to the routes that take no events. There is one limit for each kind of change, and
// one for reads (contract, section 4). These limits use the same rate limiter as events, with and without Redis.

import HTTP1
import HTTPServer
import Identity
import JourneyModel
import RateLimiting

struct DriverLimit: Sendable {
    let admission: any Admission
    let reads = RequestsUnderWay()

    /// Returns a responder that starts a task, checks the limit and calls the handler. Each request with a valid token
    /// counts towards the limit, whatever its result. Its response contains the driver's quota, but not the limit's
    /// policy, which `API.surface` adds to all responses of the route.
    ///
    /// For the limit `reads`, the number of a driver's reads under way is limited too, unless `reads` is off.
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

    /// Whether the driver has used up the limit in the current window, as counted in this process.
    func isExhausted(by driver: DriverID, _ limitClass: RateLimitClass) -> Bool {
        admission.quota(of: driver, in: limitClass).isExhausted
    }

    /// Counts `times` additional requests, even if the driver then exceeds the limit. Used for expensive requests.
    func charge(_ driver: DriverID, _ limitClass: RateLimitClass, times: Int) {
        guard times > 0 else { return }
        admission.charge(.ofOneRequest(limitClass, by: driver), times: times)
    }
}
