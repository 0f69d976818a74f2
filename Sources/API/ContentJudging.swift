// Checks the credential of a request when its head is complete, before its content is read. So a body without a valid
// credential uses no memory, and a client that waits for 100 (Continue) gets the refusal instead.

import HTTP1
import HTTPServer
import RateLimiting

extension Endpoint {
    /// Adds a check of the credential before the content is read, if the credential is a field that `Access` checks.
    func judged(by access: Access, refusals: RefusalLimit) -> Endpoint {
        let form: ProblemForm = route.template.hasPrefix("/api/") ? .legacy : .plain
        let judge: RequestJudge
        switch credential {
        case .accessToken:
            let takesEvents = limits.contains(.sessionEvents)
            judge = access.driverJudge(route: route.template, form: form) { driver in
                takesEvents ? refusals.exhausted(by: driver).map(ProblemAnswer.tooManyRefusals) : nil
            }
        case .operatorToken: judge = access.operatorJudge
        case .none, .singleToken, .refreshToken, .identityToken, .oneTimeCode, .appleNotice, .storeNotification:
            return self
        }
        var endpoint = self
        endpoint.route.judge = judge
        return endpoint
    }
}
