// A route with the credential that it wants and the windows that it charges: the row of the surface. Tests make their
// cases from it, so that a new route has them without a word.

package import Engine
import HTTP1
package import HTTPServer

/// What a caller has to show. Where it is in the body, the route's service judges it, not the door.
package enum Credential: String, Hashable, Sendable, CaseIterable {
    /// Nothing.
    case none
    /// An access token as Bearer.
    case accessToken
    /// OPS_TOKEN, or an access token of the role `ops`, as Bearer.
    case operatorToken
    /// The one token of shipped clients as Bearer; it may have expired.
    case singleToken
    /// In the body.
    case refreshToken
    /// Apple's, in the body.
    case identityToken
    /// A number and the six digits that it was sent, in the body.
    case oneTimeCode
    /// A notice that Apple signed, in the body.
    case appleNotice
}

package struct Endpoint: Sendable {
    package var route: Route
    package var credential: Credential
    /// Never empty for a method that changes something: the functions in Routes.swift that make such a route want one.
    package var limits: [RateLimitClass]
}

/// A method that changes something. What only reads is made by other functions, which take no method.
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

/// How refusals look.
enum ProblemForm: Sendable {
    case plain
    /// Shipped clients of /api/auth decode `success`.
    case legacy
}
