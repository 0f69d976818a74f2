// The limit of sign-in requests per client address (contract, section 8: RATE_LIMIT_AUTH). These requests are counted
// by the rate limiter of events, so servers that share a Redis share one count.
//
// The store enforces further limits: per phone number, per token and in total.
//
// The limit is checked before the credential, with one exception. If the route requires an access token and the content
// arrives after the head, the token is checked first.

import HTTP1
import HTTPServer
import Identity
import JourneyModel
import RateLimiting

struct AddressLimit: Sendable {
    let admission: any Admission
    /// The list of requests beyond the limit. It names no drivers, because the credentials of most of these requests
    /// have not been checked.
    let refused: RefusedRequests

    /// Returns a handler that checks the limit before it calls `handler`. Every response has the quota of the address,
    /// and has `Cache-Control: no-store` unless `handler` sets this field.
    ///
    /// - Parameter route: the route's template, for the records of requests beyond the limit.
    func limited(_ form: ProblemForm, route: String, _ handler: @escaping RequestHandler) -> RequestHandler {
        { request in
            let decision = await admission.admit(.ofOneRequest(.auth, fromAddressOf: request))
            var response: Response
            if decision.verdict == .refused {
                response = ProblemResponse.tooManyRequests(decision.quota).response(requestID: request.id, form)
                refused.note(response.status, nil, route: route, requestID: request.id, at: request.receivedAt)
            } else {
                response = await handler(request)
            }
            if let rateLimit = RateLimitValues.rateLimit([(.auth, decision.quota)]) {
                response.rateLimit = rateLimit + (response.rateLimit.map { ", " + $0 } ?? "")
            }
            if response.fields.first("Cache-Control") == nil { response.fields.append("Cache-Control", "no-store") }
            return response
        }
    }

    /// Applies the limit to the responder of `check`, but not to the judge. The credential may therefore be checked
    /// although the address has reached the limit.
    func limited(_ form: ProblemForm, route: String, _ check: CredentialCheck) -> CredentialCheck {
        CredentialCheck(
            judge: check.judge, handler: limited(form, route: route) { await check.responder($0).response() })
    }
}

extension AdmissionClaim {
    /// Returns a claim whose `driver` is the name of the client's address instead of a driver's id.
    static func ofOneRequest(_ limitClass: RateLimitClass, fromAddressOf request: Request) -> AdmissionClaim {
        .ofOneRequest(limitClass, by: DriverID("address:" + AddressGroup.name(of: request.remoteAddress)))
    }
}
