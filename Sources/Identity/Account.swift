// The value types for signing in, for example a user, a sign-in session, a token pair and the origin of a request.

package import JourneyModel
package import Secrets

/// A driver as the sign-in routes show it (`user` in the contract). If another service issued the token, the driver may
/// have no account here. Only `id` is then certain to have a value.
package struct User: Hashable, Sendable {
    package var id: DriverID
    package var name: String?
    package var email: String?
    /// A phone number in E.164 form.
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

/// The time, client and id of a request. The audit, the list of sign-in sessions, and the limits on codes and guesses
/// use them.
package struct RequestOrigin: Hashable, Sendable {
    /// The client's address as reported by trusted proxies.
    package var address: String
    package var requestID: String
    /// `User-Agent` as sent; truncated where it is stored.
    package var userAgent: String?
    package var at: Moment

    package init(address: String, requestID: String, userAgent: String? = nil, at: Moment) {
        self.address = address
        self.requestID = requestID
        self.userAgent = userAgent
        self.at = at
    }
}

/// Profile data in a sign-in request. The server uses this data only at the driver's first sign-in, and never to
/// identify the driver.
package struct FirstProfile: Hashable, Sendable {
    package var name: String?
    package var email: String?
    /// Ignored unless it is a role that clients may choose (`AccountRules.roles`).
    package var role: String?

    package init(name: String? = nil, email: String? = nil, role: String? = nil) {
        self.name = name
        self.email = email
        self.role = role
    }
}

/// A change of `name` and `email` (PATCH /auth/me). Each of the two values is kept, set or removed.
package struct ProfileChange: Hashable, Sendable {
    package enum Member: Hashable, Sendable {
        case keep
        /// Nil (JSON null) removes the value.
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

/// The result of a sign-in for shipped clients that do not support a token pair: one access token.
package struct SingleToken: Sendable {
    package var token: Secret<String>
    package var user: User

    package init(token: Secret<String>, user: User) {
        self.token = token
        self.user = user
    }
}

/// The way in which the user authenticated.
package enum SignInMethod: String, Hashable, Sendable {
    case apple
    case otp
}

/// Which tokens a sign-in returns: a pair, or the single token that shipped clients of /api/auth expect.
package enum SignInKind: String, Hashable, Sendable {
    case pair
    case legacy
}

/// One item of GET /auth/sessions. Ended sessions are not listed.
package struct SignInSession: Hashable, Sendable {
    /// The `sid` of the session's tokens. The id is not a secret, because it is useless without a token.
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

/// The response to DELETE /auth/me: `{"deleted":true,"receipt":id,"deleted_at":deletedAt}`.
package struct ErasureReceipt: Hashable, Sendable {
    /// A random id by which the audit and `dwell verify-erased` name the erasure. It does not identify a person.
    package var id: String
    package var deletedAt: Moment

    package init(id: String, deletedAt: Moment) {
        self.id = id
        self.deletedAt = deletedAt
    }
}

/// A device with its push token (PUT /native/devices/{token}). The module API has validated the members.
package struct Device: Hashable, Sendable {
    package var pushToken: String
    package var platform: String
    package var environment: String
    package var appVersion: String?
    /// The settings for push messages. Shipped clients send none. If nil, the stored settings of the device do not
    /// change.
    package var push: PushSettings?

    package init(
        pushToken: String, platform: String, environment: String, appVersion: String?, push: PushSettings? = nil
    ) {
        self.pushToken = pushToken
        self.platform = platform
        self.environment = environment
        self.appVersion = appVersion
        self.push = push
    }
}

/// The messages that a device gets, and their language.
package struct PushSettings: Hashable, Sendable {
    /// The language of alerts, a BCP 47 tag such as `de-AT`; nil for the default language.
    package var locale: String?
    package var notifications: NotificationPreferences
    /// The update token of the running Live Activity, in hexadecimal; nil if none runs.
    package var liveActivityToken: String?

    package init(
        locale: String? = nil, notifications: NotificationPreferences = NotificationPreferences(),
        liveActivityToken: String? = nil
    ) {
        self.locale = locale
        self.notifications = notifications
        self.liveActivityToken = liveActivityToken
    }
}

/// The reason why an account operation failed.
package enum AccountFailure: Error, Hashable, Sendable {
    /// 401, with the same response for all reasons. In most cases, the audit has the reason.
    case unauthorized
    /// 429 with `Retry-After`.
    case limited(retryAfterSeconds: Int64)
    /// 429 with `Retry-After`: another export of this driver is in progress.
    case exportUnderWay(retryAfterSeconds: Int64)
    /// 400, with every error and its JSON pointer.
    case invalid([FieldError])
    /// 404.
    case notFound
    /// 503: the operation had no effect. The text is written to the log.
    case unavailable(String)
    /// 500: it is unknown whether the operation had an effect. The text is written to the log.
    case unknown(String)
    /// The task was cancelled while it waited for a read, or between two steps of a deletion. This case is not logged.
    ///
    /// A cancelled read has changed nothing. A cancelled deletion stays begun, and the background task
    /// UnfinishedErasures completes it later.
    case cancelled
}
