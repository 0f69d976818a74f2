// A route with its credential and the windows that it charges: one row of the surface. Tests generate their cases
// from it, so that a new route is covered automatically.

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
    /// The single token of shipped clients as Bearer; it may have expired.
    case singleToken
    /// In the body.
    case refreshToken
    /// Apple's, in the body.
    case identityToken
    /// A number and the six digits sent to it, in the body.
    case oneTimeCode
    /// A notification signed by Apple, in the body.
    case appleNotice
    /// A notification signed by the App Store, in the body.
    case storeNotification
}

package struct Endpoint: Sendable {
    package var route: Route
    package var credential: Credential
    /// Never empty for a method that changes something: the functions in Routes.swift that make such a route
    /// require one.
    package var limits: [RateLimitClass]
}

/// A method that changes something. Read-only routes are made by other functions, which take no method.
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
