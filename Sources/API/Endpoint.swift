// A route with its credential and the limits that its requests count towards: one row of `API.surface`. Tests generate
// their cases from these rows, so that a new route is covered automatically.

import HTTP1
package import HTTPServer
package import RateLimiting

/// The credential of a caller. If it is in the body, the route's service verifies it, not Access.
package enum Credential: String, Hashable, Sendable, CaseIterable {
    /// Nothing.
    case none
    /// An access token as Bearer.
    case accessToken
    /// OPS_TOKEN, or an access token of the role `ops`, as Bearer.
    case operatorToken
    /// The single token of shipped clients as Bearer; an expired token is accepted.
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
    /// The limits that a request counts towards. Never empty for a method that changes something: the functions in
    /// Routes.swift that make such a route require a limit.
    package var limits: [RateLimitClass]
}

/// A method that changes something. The functions that make read-only routes take no method.
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

/// The form of refusals.
enum ProblemForm: Sendable {
    case plain
    /// Shipped clients of /api/auth decode `success`.
    case legacy
}
