// The values that signing in is about: a user, a sign-in session, a token pair, and from where a request came.

package import JourneyModel
package import Telemetry

/// A driver as the sign-in routes show one (`user` in the contract). All but `id` may be unknown: an external token's
/// driver has no account.
package struct User: Hashable, Sendable {
    package var id: DriverID
    package var name: String?
    package var email: String?
    /// E.164.
    package var phone: String?
    package var role: String?

    package init(
        id: DriverID, name: String? = nil, email: String? = nil, phone: String? = nil, role: String? = nil
    ) {
        self.id = id
        self.name = name
        self.email = email
        self.phone = phone
        self.role = role
    }
}

/// When, from where and by which request something was asked: for the audit, the limits and the list of sessions.
package struct RequestOrigin: Hashable, Sendable {
    /// The client's address as trusted proxies tell it.
    package var address: String
    package var requestID: String
    /// `User-Agent`, as sent; it is cut where it is stored.
    package var userAgent: String?
    package var at: Moment

    package init(address: String, requestID: String, userAgent: String? = nil, at: Moment) {
        self.address = address
        self.requestID = requestID
        self.userAgent = userAgent
        self.at = at
    }
}

/// What the request of a first sign-in says about the person. Never an identity, and ignored at every later one.
package struct FirstProfile: Hashable, Sendable {
    package var name: String?
    package var email: String?
    /// Ignored unless it is one that a client may give itself (`AccountRules.roles`).
    package var role: String?

    package init(name: String? = nil, email: String? = nil, role: String? = nil) {
        self.name = name
        self.email = email
        self.role = role
    }
}

/// `name` and `email` of PATCH /auth/me; each is left as it is, or set, or taken away.
package struct ProfileChange: Hashable, Sendable {
    package enum Member: Hashable, Sendable {
        case keep
        /// Nil takes it away (JSON null).
        case set(String?)
    }

    package var name: Member
    package var email: Member

    package init(name: Member = .keep, email: Member = .keep) {
        self.name = name
        self.email = email
    }
}

/// The token pair of the contract. `token_type` is `bearer`.
package struct TokenPair: Sendable {
    package var accessToken: Secret<String>
    package var refreshToken: Secret<String>
    package var expiresInSeconds: Int64
    package var user: User

    package init(
        accessToken: Secret<String>, refreshToken: Secret<String>, expiresInSeconds: Int64, user: User
    ) {
        self.accessToken = accessToken
        self.refreshToken = refreshToken
        self.expiresInSeconds = expiresInSeconds
        self.user = user
    }
}

/// The one token of shipped clients that know no pair.
package struct SingleToken: Sendable {
    package var token: Secret<String>
    package var user: User

    package init(token: Secret<String>, user: User) {
        self.token = token
        self.user = user
    }
}

/// How somebody proved who they are.
package enum SignInMethod: String, Hashable, Sendable {
    case apple
    case otp
}

/// What a client holds: a pair, or the one token of shipped clients.
package enum SignInKind: String, Hashable, Sendable {
    case pair
    case legacy
}

/// One line of GET /auth/sessions. Sessions that have ended are not listed.
package struct SignInSession: Hashable, Sendable {
    /// The `sid` of its tokens. No secret: nothing can be done with it without a token.
    package var id: String
    package var method: SignInMethod
    /// From `User-Agent`, at most 128 characters.
    package var clientName: String?
    package var createdAt: Moment
    package var lastUsedAt: Moment

    package init(id: String, method: SignInMethod, clientName: String?, createdAt: Moment, lastUsedAt: Moment) {
        self.id = id
        self.method = method
        self.clientName = clientName
        self.createdAt = createdAt
        self.lastUsedAt = lastUsedAt
    }
}

/// The answer to DELETE /auth/me: `{"deleted":true,"receipt":id,"deleted_at":deletedAt}`.
package struct ErasureReceipt: Hashable, Sendable {
    /// Random; names the erasure in the audit and to `dwell verify-erased`, and nobody's person.
    package var id: String
    package var deletedAt: Moment

    package init(id: String, deletedAt: Moment) {
        self.id = id
        self.deletedAt = deletedAt
    }
}

/// A push token's device (PUT /native/devices/{token}), its members as checked at the door.
package struct Device: Hashable, Sendable {
    package var pushToken: String
    package var platform: String
    package var environment: String
    package var appVersion: String?

    package init(pushToken: String, platform: String, environment: String, appVersion: String?) {
        self.pushToken = pushToken
        self.platform = platform
        self.environment = environment
        self.appVersion = appVersion
    }
}

/// Why something about accounts was not done.
package enum AccountFailure: Error, Hashable, Sendable {
    /// 401, one answer for all reasons; the reason is in the audit.
    case unauthorized
    /// 429 with `Retry-After`.
    case limited(retryAfterSeconds: Int64)
    /// 429 with `Retry-After`: another export of the driver is being read.
    case exportUnderWay(retryAfterSeconds: Int64)
    /// 400: all that is wrong, with pointers.
    case invalid([FieldError])
    /// 404.
    case notFound
    /// Nothing was done: 503. The text is for the log.
    case unavailable(String)
    /// Nobody knows whether it was done: 500. The text is for the log.
    case unknown(String)
    /// The task was cancelled while it waited for a read: nothing was done, nothing failed, and nobody hears of it.
    case cancelled
}
