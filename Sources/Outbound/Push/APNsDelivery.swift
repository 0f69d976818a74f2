// Sends notifications to APNs (Apple, "Sending notification requests to APNs"). Each environment (production, sandbox)
// has its own HTTP2Channel. APNsResponse decides what a response means.

package import Identity
package import JourneyModel
package import Push
import Secrets

package struct APNsDelivery: PushDelivery {
    private let channels: [APNsEnvironment: any HTTP2Sending]
    private let token: APNsProviderToken
    private let topic: String
    private let clock: @Sendable () -> Moment

    /// - Parameter topic: the app's bundle id.
    package init(
        production: HTTP2Channel, sandbox: HTTP2Channel, token: APNsProviderToken, topic: String,
        clock: @escaping @Sendable () -> Moment
    ) {
        self.init(channels: [.production: production, .sandbox: sandbox], token: token, topic: topic, clock: clock)
    }

    init(
        channels: [APNsEnvironment: any HTTP2Sending], token: APNsProviderToken, topic: String,
        clock: @escaping @Sendable () -> Moment
    ) {
        self.channels = channels
        self.token = token
        self.topic = topic
        self.clock = clock
    }

    /// The time limit of an attempt to deliver: that of two requests. The second is sent only if APNs rejects the
    /// provider token as expired.
    package var attemptSecondsMax: Int {
        2 * (channels.values.map { $0.timeoutMilliseconds }.max() ?? 0) / 1000
    }

    package func send(_ notification: PushNotification) async -> PushOutcome {
        guard case .apple(let environment) = notification.service, let channel = channels[environment] else {
            return .refused(reason: "not_configured")
        }
        // The token becomes a part of the path, and the collapse id becomes the value of a header field. Both are
        // therefore checked before use.
        guard Self.isHexadecimal(notification.token) else { return .refused(reason: "BadDeviceToken") }
        guard notification.collapseID?.utf8.allSatisfy({ (0x20...0x7E).contains($0) }) ?? true else {
            return .refused(reason: "BadCollapseId")
        }
        do {
            var text = try token.text(atSecondsSince1970: seconds)
            var response = try await channel.send(request(notification, text))
            if APNsResponse(response).reason == APNsResponse.expiredToken {
                guard let newer = try token.text(afterRejected: text, atSecondsSince1970: seconds) else {
                    return .unavailable(
                        reason: APNsResponse.expiredToken,
                        afterSeconds: token.secondsUntilRenewal(atSecondsSince1970: seconds))
                }
                text = newer
                response = try await channel.send(request(notification, text))
            }
            return APNsResponse(response).outcome
        } catch let failure as OutgoingFailure {
            return .unavailable(reason: failure.rawValue, afterSeconds: nil)
        } catch {
            return .refused(reason: "not_signed")
        }
    }

    private var seconds: Int64 { clock().millisecondsSinceEpoch / 1000 }

    private func request(_ notification: PushNotification, _ token: Secret<String>) -> HTTP2Request {
        let type: String
        var topic = topic
        switch notification.kind {
        case .alert: type = "alert"
        case .background: type = "background"
        case .liveActivity:
            type = "liveactivity"
            topic += ".push-type.liveactivity"
        }
        var fields = [
            ("authorization", "bearer \(token.reveal())"), ("apns-topic", topic), ("apns-push-type", type),
            ("apns-priority", String(notification.priority)),
            // 0: APNs tries once and does not store the notification.
            ("apns-expiration", String((notification.expiresAt?.millisecondsSinceEpoch ?? 0) / 1000)),
            ("content-type", "application/json"),
        ]
        if let id = notification.collapseID, !id.isEmpty { fields.append(("apns-collapse-id", id)) }
        return HTTP2Request(path: "/3/device/\(notification.token)", fields: fields, body: notification.payload)
    }

    private static func isHexadecimal(_ token: String) -> Bool {
        (1...512).contains(token.utf8.count) && token.utf8.allSatisfy { $0.hexDigitValue != nil }
    }
}
