// The port to the push services, Apple's APNs and Google's FCM.

package import JourneyModel

/// The response of a push service to one notification.
package enum PushOutcome: Hashable, Sendable {
    /// The service took the notification. Whether the device shows it is not known.
    case delivered
    /// The device no longer has the app (APNs 410, FCM 404 UNREGISTERED). `since`: the time at which APNs last found
    /// the token invalid; nil if the service does not say. A device that registered later than that is still valid.
    case unregistered(since: Moment?)
    /// The service cannot take the notification now (429, 5xx, a time-out, a lost connection). It may be sent again,
    /// but not before `afterSeconds`; nil if the service does not say. It may already have been delivered. `reason` is
    /// one word for the log.
    case unavailable(reason: String, afterSeconds: Int?)
    /// The service will never take this notification (400, 403, 413). `reason` is the service's own word, such as
    /// BadDeviceToken.
    case refused(reason: String)
}

package protocol PushDelivery: Sendable {
    /// Sends one notification, and returns within a fixed time limit. Many calls at the same time share one connection
    /// for each service and environment, or two (`HTTP2Loop`). A call that was cancelled returns `unavailable`.
    func send(_ notification: PushNotification) async -> PushOutcome
}
