// The response of Apple's token endpoint (RFC 6749, sections 5.1 and 5.2). Only the members that are used are read.

import Foundation
import JourneyModel
package import Secrets

package struct AppleTokenResponse: Sendable {
    package static let refreshTokenBytesMax = 4096

    package var refreshToken: Secret<String>
    /// The person who signed in: `sub` of `id_token`. The signature of `id_token` is not checked, because the response
    /// comes over TLS from Apple itself.
    package var subject: String

    /// Returns nil if a member is missing or unusable.
    package init?(_ body: [UInt8]) {
        guard let json = try? JSONValue.parse(body),
            let refreshToken = json["refresh_token"]?.text,
            (1...Self.refreshTokenBytesMax).contains(refreshToken.utf8.count),
            let token = json["id_token"]?.text,
            let subject = SignedToken.claimsOfTrustedSender(token)?["sub"]?.text
        else { return nil }
        self.refreshToken = Secret(refreshToken)
        self.subject = subject
    }

    /// Returns `error` of an error response.
    package static func errorCode(_ body: [UInt8]) -> String? {
        (try? JSONValue.parse(body))?["error"]?.text
    }
}
