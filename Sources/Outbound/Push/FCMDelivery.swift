// Sends notifications to Firebase Cloud Messaging (HTTP v1 API: projects.messages.send).

import Foundation
package import JourneyModel
package import Push
import Secrets

package struct FCMDelivery: PushDelivery {
    private let channel: any HTTP2Sending
    private let token: GoogleAccessToken
    private let path: String
    private let clock: @Sendable () -> Moment

    /// - Parameter projectID: the project of the service account.
    package init(
        channel: HTTP2Channel, token: GoogleAccessToken, projectID: String, clock: @escaping @Sendable () -> Moment
    ) {
        self.init(sending: channel, token: token, projectID: projectID, clock: clock)
    }

    init(
        sending channel: any HTTP2Sending, token: GoogleAccessToken, projectID: String,
        clock: @escaping @Sendable () -> Moment
    ) {
        self.channel = channel
        self.token = token
        path = "/v1/projects/\(projectID)/messages:send"
        self.clock = clock
    }

    /// The time limit of an attempt to deliver. An attempt requests an access token and then sends the notification to
    /// FCM. It does both a second time only if FCM rejects the first access token.
    package var attemptSecondsMax: Int {
        2 * (GoogleAccessToken.timeoutMilliseconds + channel.timeoutMilliseconds) / 1000
    }

    package func send(_ notification: PushNotification) async -> PushOutcome {
        guard notification.service == .google else { return .refused(reason: "not_configured") }
        guard let body = Self.body(notification, at: clock()) else { return .refused(reason: "INVALID_ARGUMENT") }
        do {
            var text = try await token.text()
            var response = try await channel.send(request(body, text))
            if response.status == 401, FCMResponse(response).errorCode != FCMResponse.thirdParty {
                await token.reject(text)
                text = try await token.text()
                response = try await channel.send(request(body, text))
            }
            return FCMResponse(response).outcome
        } catch let error as GoogleAccessToken.Unavailable {
            return .unavailable(reason: error.reason, afterSeconds: error.afterSeconds)
        } catch let failure as OutgoingFailure {
            return .unavailable(reason: failure.rawValue, afterSeconds: nil)
        } catch {
            return .unavailable(reason: "unknown", afterSeconds: nil)
        }
    }

    private func request(_ body: [UInt8], _ token: Secret<String>) -> HTTP2Request {
        HTTP2Request(
            path: path,
            fields: [("authorization", "Bearer \(token.reveal())"), ("content-type", "application/json")], body: body)
    }

    /// Returns the notification's message with its device token. The Android options (collapse key, lifetime and
    /// priority) are added if the message does not set them. Returns nil if the payload, or its member `android`, is
    /// not a JSON object.
    static func body(_ notification: PushNotification, at now: Moment) -> [UInt8]? {
        guard case .object(var members)? = try? JSONValue.parse(notification.payload) else { return nil }
        var android: [JSONMember] = []
        if let index = members.firstIndex(where: { $0.name == "android" }) {
            guard case .object(let own) = members.remove(at: index).value else { return nil }
            android = own
        }
        func add(_ name: String, _ value: JSONValue) {
            if !android.contains(where: { $0.name == name }) { android.append(JSONMember(name, value)) }
        }
        if let id = notification.collapseID, !id.isEmpty { add("collapse_key", .string(id)) }
        // 0s: FCM tries once and does not store the message.
        let seconds = notification.expiresAt.map { max(0, $0.milliseconds(since: now) / 1000) } ?? 0
        add("ttl", .string("\(min(seconds, 2_419_200))s"))
        add("priority", .string(notification.priority >= 10 ? "HIGH" : "NORMAL"))
        members.append(JSONMember("android", .object(android)))
        members.append(JSONMember("token", .string(notification.token)))
        var writer = JSONWriter()
        writer.value(.object([JSONMember("message", .object(members))]))
        return writer.bytes
    }
}

/// The meaning of a response of FCM (google.rpc.Status, with a google.firebase.fcm.v1.FcmError in its details).
struct FCMResponse {
    /// FCM's error code if Google could not authenticate itself to APNs or to a web push service. A new access token
    /// would not help.
    static let thirdParty = "THIRD_PARTY_AUTH_ERROR"

    let status: Int
    /// FCM's own error code; nil if there is none.
    let errorCode: String?
    /// Google's general code, such as NOT_FOUND.
    private let generalCode: String?
    private let retryAfterSeconds: Int?

    init(_ response: OutgoingResponse) {
        status = response.status
        retryAfterSeconds = response.retryAfterSeconds.map { min(max($0, 1), 3600) }
        let error = response.status == 200 ? nil : (try? JSONValue.parse(response.body))?["error"]
        generalCode = Self.word(error?["status"])
        var found: String?
        if case .array(let details) = error?["details"] {
            found = details.lazy.compactMap { Self.word($0["errorCode"]) }.first
        }
        errorCode = found
    }

    var outcome: PushOutcome {
        let word = errorCode ?? generalCode ?? "status_\(status)"
        switch status {
        case 200: return .delivered
        // UNREGISTERED means that the device token is no longer valid. A 404 without UNREGISTERED means that the
        // project does not exist.
        case 404 where errorCode == "UNREGISTERED": return .unregistered(since: nil)
        // Google asks clients to wait a minute if the response has no Retry-After.
        case 429: return .unavailable(reason: word, afterSeconds: retryAfterSeconds ?? 60)
        case 500...599: return .unavailable(reason: word, afterSeconds: retryAfterSeconds)
        default: return .refused(reason: word)
        }
    }

    private static func word(_ value: JSONValue?) -> String? {
        guard case .string(let text) = value, (1...64).contains(text.utf8.count),
            text.utf8.allSatisfy({ (0x41...0x5A).contains($0) || $0 == UInt8(ascii: "_") })
        else { return nil }
        return text
    }
}
