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

    /// The handler behind the limit. Its answers carry the quota of the address, and `Cache-Control: no-store`.
    ///
    /// - Parameter driverClass: the window of the driver that the handler charges too; named in the policy.
    func limited(_ form: ProblemForm, driverClass: RateLimitClass?, _ handler: @escaping RequestHandler)
        -> RequestHandler
    {
        let policy = RateLimitFields.policy(limits, for: [.auth] + (driverClass.map { [$0] } ?? []))
        return { request in
            let decision = await admission.admit(Self.claim(of: request))
            var response =
                decision.verdict == .refused
                ? ProblemAnswer.tooManyRequests(decision.quota).response(requestID: request.id, form)
                : await handler(request)
            if let policy { response.fields.set("RateLimit-Policy", policy) }
            if let standing = RateLimitFields.standing([(.auth, decision.quota)]) {
                let driver = response.fields.first("RateLimit")
                response.fields.set("RateLimit", standing + (driver.map { ", " + $0 } ?? ""))
            }
            if response.fields.first("Cache-Control") == nil { response.fields.append("Cache-Control", "no-store") }
            return response
        }
    }

    private static func claim(of request: Request) -> AdmissionClaim {
        AdmissionClaim(
            driver: DriverID("address:" + AddressGroup.name(of: request.remoteAddress)), limitClass: .auth,
            idempotencyKey: AdmissionClaim.keyOfOneRequest())
    }
}

extension AdmissionClaim {
    /// Made by the server for each request: with a key that the client chooses, a repeat would be free.
    static func keyOfOneRequest() -> String { String(UInt64.random(in: .min ... .max), radix: 36) }
}
