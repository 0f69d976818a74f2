// The limit on the routes of signing in: requests per client address (contract, section 8: RATE_LIMIT_AUTH), decided
// before anything of a request is looked at, and by the same admission as events, so that it holds for several servers
// together. What is limited by number, by token or in all is the store's.

import Engine
import HTTP1
import HTTPServer
import Identity
import JourneyModel

struct AddressLimit: Sendable {
    let admission: any Admission
    let limits: RateLimits

    /// The handler behind the limit. Its answers say how the address stands, and that nobody may keep them.
    func limited(_ form: ProblemForm, _ handler: @escaping RequestHandler)
        -> RequestHandler
    {
        let policy = RateLimitFields.policy(limits, for: [.auth])
        return { request in
            let decision = await admission.admit(Self.claim(of: request))
            var response =
                decision.verdict == .refused
                ? ProblemAnswer.tooManyRequests(decision.quota).response(requestID: request.id, form)
                : await handler(request)
            if let policy { response.fields.append("RateLimit-Policy", policy) }
            if let standing = RateLimitFields.standing([(.auth, decision.quota)]) {
                response.fields.append("RateLimit", standing)
            }
            if response.fields.first("Cache-Control") == nil { response.fields.append("Cache-Control", "no-store") }
            return response
        }
    }

    /// The key is made here for each request: by a name that the client chooses (X-Request-Id) a repeat would be free.
    private static func claim(of request: Request) -> AdmissionClaim {
        AdmissionClaim(
            driver: DriverID("address:" + AddressGroup.name(of: request.remoteAddress)), limitClass: .auth,
            idempotencyKey: String(UInt64.random(in: .min ... .max), radix: 36))
    }
}
