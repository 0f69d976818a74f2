// A route with its required credential and its limits. `API.surface` contains one endpoint per route. Tests generate
// their cases from these endpoints, so that a new route is tested automatically.

import HTTP1
package import HTTPServer
package import RateLimiting

/// The kind of credential that a route requires. The type `Access` verifies access tokens and operator tokens. All
/// other credentials are verified by the service that the route's handler calls.
package enum Credential: String, Hashable, Sendable, CaseIterable {
    /// No credential.
    case none
    /// An access token in the Authorization field.
    case accessToken
    /// OPS_TOKEN, or an access token of the role `ops`, in the Authorization field.
    case operatorToken
    /// An access token of the role `service`, in the Authorization field.
    case serviceToken
    /// The single token, which shipped clients of /api/auth use instead of an access token and a refresh token. It is
    /// in the Authorization field, and may have expired.
    case singleToken
    /// A refresh token, in the body.
    case refreshToken
    /// An identity token of Apple, in the body.
    case identityToken
    /// A phone number and the six digits sent to it, in the body.
    case oneTimeCode
    /// A notification signed by Apple, in the body.
    case appleNotice
    /// A notification signed by the App Store, in the body.
    case storeNotification
}

package struct Endpoint: Sendable {
    package var route: Route
    package var credential: Credential
    /// The limits that a request counts towards. Every route that changes something has a limit, because the functions
    /// in Routes.swift set or require one.
    package var limits: [RateLimitClass]
}

/// The methods that the function `write` in Routes.swift takes.
enum WritingMethod {
    case post, put, patch, delete

    var method: Method {
        switch self {
        case .post: .post
        case .put: .put
        case .patch: .patch
        case .delete: .delete
        }
    }
}

/// The JSON form of a refusal.
enum ProblemForm: Sendable {
    case plain
    /// The form with the member `success`, which shipped clients of /api/auth expect.
    case legacy

    /// Chooses the form by the path. Used for requests that are refused before a handler is called, for example because
    /// the body is too long.
    init(path: String) {
        let isLegacy = ["/api/auth/", "/api/drivers/", "/api/push/"].contains { path.hasPrefix($0) }
        self = isLegacy ? .legacy : .plain
    }
}
