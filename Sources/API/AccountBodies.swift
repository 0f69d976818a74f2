// The bodies of the sign-in routes (contract, section 6). All errors of a body are reported together. A malformed token
// is no error here, because it gets 401 later.

import HTTPServer
import Identity
import JourneyModel
import Secrets

extension MemberReader {
    /// Reads a required, nonempty string.
    fileprivate mutating func credential(_ name: String) -> Secret<String>? {
        require(name)
        return text(name, "must be a string that is not empty") { !$0.isEmpty }.map { Secret($0) }
    }

    /// Reads `code`: a one-time code to sign in, or a verification code of a session.
    mutating func code() -> Secret<String>? {
        require("code")
        return text("code", "must be six digits") { $0.utf8.count == 6 && $0.utf8.allSatisfy(\.isASCIIDigit) }
            .map { Secret($0) }
    }

    /// Reads an optional string without checking its form. An unusable name is ignored later; an unusable token is
    /// refused later with 401.
    fileprivate mutating func anyText(_ name: String) -> String? {
        text(name, "must be a string") { _ in true }
    }
}

/// The body of POST /auth/apple and POST /api/auth/apple. The member `userIdentifier` of POST /api/auth/apple is not
/// read, because it proves no identity.
struct AppleSignInBody {
    var identityToken: Secret<String>
    /// The nonce that the app made. The identity token contains only the digest of this nonce.
    var nonce: Secret<String>
    var authorizationCode: Secret<String>?
    var profile: FirstProfile

    static func decode(_ request: Request) throws(ProblemResponse) -> AppleSignInBody {
        try JSONBody.decode(request) { members in
            let identityToken = members.credential("identity_token")
            let nonce = members.credential("nonce")
            let authorizationCode = members.anyText("authorization_code")
            let profile = FirstProfile(
                name: members.anyText("name"), email: members.anyText("email"), role: members.anyText("role"))
            guard let identityToken, let nonce else { return nil }
            return AppleSignInBody(
                identityToken: identityToken, nonce: nonce,
                authorizationCode: authorizationCode.flatMap { $0.isEmpty ? nil : Secret($0) }, profile: profile)
        }
    }
}

/// The body of POST /auth/otp/start and /v1/auth/otp/start.
struct CodeRequestBody {
    var phone: String

    static func decode(_ request: Request) throws(ProblemResponse) -> CodeRequestBody {
        try JSONBody.decode(request) { members in members.phone("phone").map { CodeRequestBody(phone: $0) } }
    }

    /// Decodes the body of POST /api/auth/send-code.
    static func decodeLegacy(_ request: Request) throws(ProblemResponse) -> CodeRequestBody {
        try JSONBody.decode(request) { members in members.legacyPhone().map { CodeRequestBody(phone: $0) } }
    }
}

/// The body of POST /auth/otp/verify and /v1/auth/otp/verify.
struct CodeBody {
    var phone: String
    var code: Secret<String>

    static func decode(_ request: Request) throws(ProblemResponse) -> CodeBody {
        try decode(request) { $0.phone("phone") }
    }

    /// Decodes the body of POST /api/auth/verify-code.
    static func decodeLegacy(_ request: Request) throws(ProblemResponse) -> CodeBody {
        try decode(request) { $0.legacyPhone() }
    }

    private static func decode(
        _ request: Request, _ readPhone: (inout MemberReader) -> String?
    ) throws(ProblemResponse) -> CodeBody {
        try JSONBody.decode(request) { members in
            let phone = readPhone(&members)
            guard let code = members.code(), let phone else { return nil }
            return CodeBody(phone: phone, code: code)
        }
    }
}

extension MemberReader {
    fileprivate mutating func phone(_ name: String) -> String? {
        require(name)
        return text(name, "must be a phone number with its country, in E.164: + and 8 to 15 digits") {
            PhoneNumber($0) != nil
        }
    }

    /// Reads the phone number from `phoneNumber`, or from `phone` if only `phone` is present. If both are absent, the
    /// error names `phoneNumber`.
    fileprivate mutating func legacyPhone() -> String? {
        phone(value("phoneNumber") == nil && value("phone") != nil ? "phone" : "phoneNumber")
    }
}

/// The body of POST /auth/refresh.
struct RefreshBody {
    var refreshToken: Secret<String>

    static func decode(_ request: Request) throws(ProblemResponse) -> RefreshBody {
        try JSONBody.decode(request) { members in
            // An empty token is treated as an invalid token, not as a malformed body, so that the app signs in again.
            members.require("refresh_token")
            return members.anyText("refresh_token").map { RefreshBody(refreshToken: Secret($0)) }
        }
    }
}

/// The optional body of POST /auth/logout.
struct SignOutBody {
    var refreshToken: Secret<String>?

    static func decode(_ request: Request) throws(ProblemResponse) -> SignOutBody {
        if request.body.isEmpty { return SignOutBody() }
        return try JSONBody.decode(request) { members in
            let token = members.anyText("refresh_token")
            return SignOutBody(refreshToken: token.map { Secret($0) })
        }
    }

    /// Returns whether the query contains `all=true`.
    static func meansAll(_ request: Request) throws(ProblemResponse) -> Bool {
        switch PageQuery.values(of: "all", in: request.query) {
        case [], ["false"]: return false
        case ["true"]: return true
        default:
            let error = FieldError(pointer: "/all", detail: "must be true or false, at most once")
            throw ProblemResponse(.invalid(InvalidFields([error])))
        }
    }
}

/// A change of name and email. A member with the value null is removed from the profile.
enum ProfileBody {
    /// Decodes the body of PATCH /auth/me and PUT /api/drivers/profile. An absent member stays unchanged.
    static func decodeChange(_ request: Request) throws(ProblemResponse) -> ProfileChange {
        try decode(request, absent: .keep)
    }

    /// Decodes the body of PUT /auth/me, which is the whole new profile (RFC 9110 section 9.3.4). A member that is
    /// absent from the body is removed from the profile.
    static func decodeReplacement(_ request: Request) throws(ProblemResponse) -> ProfileChange {
        try decode(request, absent: .set(nil))
    }

    private static func decode(
        _ request: Request, absent: ProfileChange.Member
    ) throws(ProblemResponse) -> ProfileChange {
        let value = try JSONBody.value(of: request)
        return try JSONBody.decode(value) { members in
            ProfileChange(
                name: member("name", of: value, absent: absent, &members),
                email: member("email", of: value, absent: absent, &members))
        }
    }

    private static func member(
        _ name: String, of value: JSONValue, absent: ProfileChange.Member, _ members: inout MemberReader
    ) -> ProfileChange.Member {
        switch value[name] {
        case nil: absent
        case .null?: .set(nil)
        case .some: .set(members.text(name, "must be a string or null") { _ in true })
        }
    }
}

/// The body of DELETE /auth/me. It must confirm the deletion, so that a client that sends DELETE by mistake deletes
/// nothing.
enum ConfirmationBody {
    static func decode(_ request: Request) throws(ProblemResponse) {
        let detail = "must be true: this deletes the account"
        if request.body.isEmpty {
            throw ProblemResponse(.invalid(InvalidFields([FieldError(pointer: "/confirm", detail: detail)])))
        }
        _ = try JSONBody.decode(request) { members in
            if members.value("confirm") != .bool(true) { members.refuse("confirm", detail) }
            return true
        }
    }
}

/// The body of PUT /native/devices/{token}.
enum DeviceBody {
    static func decode(_ request: Request) throws(ProblemResponse) -> Device {
        let token = try PushToken.read(request)
        return try JSONBody.decode(request) { members in
            members.require("platform")
            members.require("environment")
            let platform = members.text("platform", "must be ios, android or another word of a-z, 0-9 and _") {
                isWord($0)
            }
            let environment = members.text(
                "environment", "must be one of \(environments.joined(separator: ", "))"
            ) { environments.contains($0) }
            let appVersion = members.text("app_version", charactersMax: 64)
            let push = PushSettings(
                locale: members.text("locale", LanguageTag.rule) { LanguageTag.isValid($0) },
                notifications: notifications(&members), liveActivityToken: liveActivityToken(&members))
            guard let platform, let environment else { return nil }
            return Device(
                pushToken: token, platform: platform, environment: environment, appVersion: appVersion, push: push)
        }
    }

    private static func notifications(_ members: inout MemberReader) -> NotificationPreferences {
        guard let value = members.value("notifications") else { return NotificationPreferences() }
        switch NotificationPreferences.read(value) {
        case .success(let preferences): return preferences
        case .failure(let invalid) where invalid.name.isEmpty:
            members.refuse("notifications", "must be a JSON object of booleans")
        case .failure(let invalid): members.refuse("notifications/\(invalid.name)", "must be true or false")
        }
        return NotificationPreferences()
    }

    /// Reads the token of the Live Activity. The token has no effect on platforms other than iOS.
    private static func liveActivityToken(_ members: inout MemberReader) -> String? {
        members.text(
            "live_activity_token", "must be a Live Activity's update token: 1 to 512 hexadecimal digits"
        ) { text in
            (1...PushToken.bytesMax).contains(text.utf8.count)
                && text.utf8.allSatisfy { $0.hexDigitValue != nil }
        }
    }

    /// Decodes the body of POST /api/push/register-token. An absent `environment` means `production`, and an absent
    /// `platform` means `ios`. The case of `platform` is ignored.
    static func decodeLegacy(_ request: Request) throws(ProblemResponse) -> Device {
        try JSONBody.decode(request) { members in
            members.require("token")
            let token = members.text("token", PushToken.allowed) { PushToken.isAllowed($0) }
            let platform = members.text("platform", "must be ios, android or another word of letters, 0-9 and _") {
                isWord($0.lowercased())
            }
            let environment = members.text(
                "environment", "must be one of \(environments.joined(separator: ", "))"
            ) { environments.contains($0) }
            let appVersion = members.text("app_version", charactersMax: 64)
            guard let token else { return nil }
            return Device(
                pushToken: token, platform: platform?.lowercased() ?? "ios", environment: environment ?? "production",
                appVersion: appVersion)
        }
    }

    private static let environments = ["production", "development", "sandbox"]

    private static func isWord(_ text: String) -> Bool {
        (1...32).contains(text.utf8.count)
            && text.utf8.allSatisfy { byte in
                (UInt8(ascii: "a")...UInt8(ascii: "z")).contains(byte)
                    || byte.isASCIIDigit || byte == UInt8(ascii: "_")
            }
    }
}

/// The token of a device: a device token of APNs, or a registration token of FCM. It is the last segment of the path
/// /native/devices/{token}, or a member of the body of POST /api/push/register-token.
enum PushToken {
    static let bytesMax = 512

    static func read(_ request: Request) throws(ProblemResponse) -> String {
        let token = request.parameters["token"] ?? ""
        guard isAllowed(token) else {
            throw ProblemResponse(.invalid(InvalidFields([FieldError(pointer: "/token", detail: allowed)])))
        }
        return token
    }

    static let allowed = "must be 1 to \(bytesMax) characters of A-Z, a-z, 0-9, colon, underscore, hyphen and dot"

    static func isAllowed(_ token: String) -> Bool {
        (1...bytesMax).contains(token.utf8.count) && token.utf8.allSatisfy(isAllowed)
    }

    private static func isAllowed(_ byte: UInt8) -> Bool {
        byte.isASCIILetter || byte.isASCIIDigit || ":_-.".utf8.contains(byte)
    }
}

/// The body of POST /apple/notifications.
struct AppleNotificationBody {
    /// The notification, a JWS in compact form.
    var payload: String

    static func decode(_ request: Request) throws(ProblemResponse) -> AppleNotificationBody {
        try JSONBody.decode(request) { members in
            members.credential("payload").map { AppleNotificationBody(payload: $0.reveal()) }
        }
    }
}
