// The limit of sign-in requests per client address (contract, section 8: RATE_LIMIT_AUTH). The same rate limiter counts
// these requests and events. Therefore several servers with Redis share one count.
//
// The store enforces further limits: per phone number, per token and in total.
//
// The limit is checked before the handler runs, and usually before the credential is checked. The only exception is a
// route that requires an access token: if the content arrives after the head, the token is checked first.

import HTTP1
import HTTPServer
import Identity
import JourneyModel
import RateLimiting

struct AddressLimit: Sendable {
    let admission: any Admission
    /// The list in which requests beyond the limit are recorded. They are recorded without a driver, because the
    /// credentials of most of them have not been checked.
    let refused: RefusedRequests

    /// Returns a handler that checks the limit and then calls `handler`. All responses of the returned handler carry
    /// the quota of the address and `Cache-Control: no-store`.
    ///
    /// - Parameter route: the route's template, under which requests beyond the limit are recorded.
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

    /// Returns `check` with the limit applied to its responder. The limit does not apply to the judge, so the
    /// credential may be checked even if the address has reached the limit.
    func limited(_ form: ProblemForm, route: String, _ check: CredentialCheck) -> CredentialCheck {
        CredentialCheck(
            judge: check.judge, handler: limited(form, route: route) { await check.responder($0).response() })
    }
}

extension AdmissionClaim {
    /// Returns the claim that counts one request of a client address. The claim's `driver` is the name of the address
    /// instead of a driver's id.
    static func ofOneRequest(_ limitClass: RateLimitClass, fromAddressOf request: Request) -> AdmissionClaim {
        .ofOneRequest(limitClass, by: DriverID("address:" + AddressGroup.name(of: request.remoteAddress)))
    }
}
