// The interface to the push services, Apple's APNs and Google's FCM.

package import JourneyModel

/// The response of a push service to one notification.
package enum PushOutcome: Hashable, Sendable {
    /// The service accepted the notification. It is unknown whether the device shows it.
    case delivered
    /// The device no longer has the app (APNs 410, FCM 404 UNREGISTERED). `since` is the time when APNs found the token
    /// invalid; nil if the service names no time. A device that registered after `since` is still valid.
    case unregistered(since: Moment?)
    /// The service did not confirm the notification (429, 5xx, a timeout, a lost connection), but may have delivered
    /// it. `afterSeconds` is the pause that the service asks for; nil if it asks for none.
    ///
    /// `reason` is one word for the log.
    case unavailable(reason: String, afterSeconds: Int?)
    /// The service will never accept this notification (400, 403, 413). `reason` is the service's own word, such as
    /// BadDeviceToken. If no request could be sent, `reason` is a word of this server, such as `not_configured`.
    case refused(reason: String)
}

package protocol PushDelivery: Sendable {
    /// The longest time that one call of `send` takes, in seconds.
    var attemptSecondsMax: Int { get }

    /// Sends one notification, and returns within `attemptSecondsMax`. Concurrent calls share one or two connections
    /// for each service and environment (`HTTP2Loop`). A cancelled call returns `unavailable`.
    func send(_ notification: PushNotification) async -> PushOutcome
}
