// A route with the credential that it wants: the row of the surface. Tests make their cases from it, so that a new route
// has them without a word.

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
}

/// How refusals look.
enum ProblemForm: Sendable {
    case plain
    /// Shipped clients of /api/auth decode `success`.
    case legacy
}
