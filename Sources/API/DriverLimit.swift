// Limits how many requests a driver can send to the routes that take no events (contract, section 4). All reads share
// one limit. Each kind of change, such as `devices`, has a limit of its own.

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
    /// The responder adds the driver's quota to the response. `API.surface` adds the limit's policy.
    ///
    /// If `limitClass` is `reads` and this limit is on, the driver's concurrent reads are limited too.
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

    /// Whether the driver has used up the limit in the current window, as far as this process knows. Does not ask
    /// Redis.
    func isExhausted(by driver: DriverID, _ limitClass: RateLimitClass) -> Bool {
        admission.quota(of: driver, in: limitClass).isExhausted
    }

    /// Charges an expensive request `times` additional times, even beyond the driver's limit.
    func charge(_ driver: DriverID, _ limitClass: RateLimitClass, times: Int) {
        guard times > 0 else { return }
        admission.charge(.ofOneRequest(limitClass, by: driver), times: times)
    }
}
