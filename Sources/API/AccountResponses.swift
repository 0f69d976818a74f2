// The responses of the sign-in routes (contract, section 6). A member without a value is null, because shipped clients
// expect every member. Only GET /auth/me has `app_account_token`, and only if the server accepts purchases.

import HTTP1
import HTTPServer
import Identity
import JourneyModel
import Secrets

enum AccountResponses {
    static func pair(_ pair: TokenPair) -> Response {
        json { writer in
            writer.nullableMember("access_token", pair.accessToken.reveal())
            writer.nullableMember("refresh_token", pair.refreshToken.reveal())
            writer.nullableMember("token_type", "bearer")
            writer.name("expires_in")
            writer.integer(pair.expiresInSeconds)
            writer.name("user")
            writer.beginObject()
            members(of: pair.user, phone: "phone", &writer)
            writer.endObject()
        }
    }

    /// - Parameter appAccountToken: the driver's token for StoreKit; nil if the server accepts no purchases.
    static func user(_ user: User, appAccountToken: String? = nil) -> Response {
        json { writer in
            members(of: user, phone: "phone", &writer)
            writer.member("app_account_token", appAccountToken)
        }
    }

    static let codeSent = json { writer in
        writer.name("otp_sent")
        writer.bool(true)
    }

    /// - Parameter current: the id of the sign-in session that made this request.
    static func sessions(_ sessions: [SignInSession], current: String?) -> Response {
        json { writer in
            writer.name("sessions")
            writer.beginArray()
            for session in sessions {
                writer.beginObject()
                writer.nullableMember("id", session.id)
                writer.nullableMember("method", session.method.rawValue)
                writer.nullableMember("client_name", session.clientName)
                writer.nullableMember("created_at", RFC3339.text(of: session.createdAt))
                writer.nullableMember("last_used_at", RFC3339.text(of: session.lastUsedAt))
                writer.name("current")
                writer.bool(session.id == current)
                writer.endObject()
            }
            writer.endArray()
        }
    }

    static func receipt(_ receipt: ErasureReceipt) -> Response {
        json { members(of: receipt, &$0) }
    }

    static func device(_ device: Device, isNew: Bool) -> Response {
        json(isNew ? .created : .ok) { writer in
            writer.nullableMember("platform", device.platform)
            writer.nullableMember("environment", device.environment)
            writer.nullableMember("app_version", device.appVersion)
            let push = device.push ?? PushSettings()
            writer.nullableMember("locale", push.locale)
            writer.name("notifications")
            writer.raw(push.notifications.json)
            // The Live Activity token is a credential, so the response says only whether there is one.
            writer.name("live_activity")
            writer.bool(push.liveActivityToken != nil)
        }
    }

    static let noticeTaken = json { $0.nullableMember("status", "ok") }

    static let noContent = Response(status: .noContent, fields: Fields([("Cache-Control", "no-store")]))

    // MARK: Shipped clients of /api/auth

    static let legacyCodeSent = legacy { writer in
        writer.name("otp_sent")
        writer.bool(true)
    }

    static let legacyDone = legacy { _ in }

    static func singleToken(_ token: SingleToken, withUser: Bool) -> Response {
        legacy { writer in
            writer.nullableMember("token", token.token.reveal())
            if withUser { legacyUser(token.user, &writer) }
        }
    }

    static func legacyUser(_ user: User) -> Response {
        legacy { legacyUser(user, &$0) }
    }

    static func legacyReceipt(_ receipt: ErasureReceipt) -> Response {
        legacy { members(of: receipt, &$0) }
    }

    private static func legacyUser(_ user: User, _ writer: inout JSONWriter) {
        writer.name("user")
        writer.beginObject()
        members(of: user, phone: "phoneNumber", &writer)
        writer.endObject()
    }

    private static func legacy(_ write: (inout JSONWriter) -> Void) -> Response {
        json { writer in
            writer.name("success")
            writer.bool(true)
            write(&writer)
        }
    }

    // MARK: Parts

    private static func members(of user: User, phone: String, _ writer: inout JSONWriter) {
        writer.nullableMember("id", user.id.rawValue)
        writer.nullableMember("name", user.name)
        writer.nullableMember("email", user.email)
        writer.nullableMember(phone, user.phone)
        writer.nullableMember("role", user.role)
    }

    private static func members(of receipt: ErasureReceipt, _ writer: inout JSONWriter) {
        writer.name("deleted")
        writer.bool(true)
        writer.nullableMember("receipt", receipt.id)
        writer.nullableMember("deleted_at", RFC3339.text(of: receipt.deletedAt))
    }

    /// Returns a response that contains one JSON object. No cache may store the response.
    private static func json(_ status: Status = .ok, _ write: (inout JSONWriter) -> Void) -> Response {
        var writer = JSONWriter(reservingBytes: 1024)
        writer.beginObject()
        write(&writer)
        writer.endObject()
        return .noStore(writer.bytes, status)
    }
}

extension JSONWriter {
    fileprivate mutating func nullableMember(_ name: String, _ text: String?) {
        self.name(name)
        if let text { string(text) } else { null() }
    }
}
