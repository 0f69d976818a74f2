// One notification to one device, as PushSender passes it to the transport. This type does not depend on HTTP, on
// credentials, or on the reason for the notification.

package import JourneyModel

/// The environment of APNs in which a device token is valid. Apple calls the sandbox "development" in entitlements.
package enum APNsEnvironment: String, CaseIterable, Hashable, Sendable {
    case sandbox, production
}

/// A complete notification, except for the service's address and the credentials, which the transport adds.
package struct PushNotification: Hashable, Sendable {
    package enum Kind: Hashable, Sendable {
        case alert, background, liveActivity
    }

    package enum Service: Hashable, Sendable {
        case apple(APNsEnvironment)
        case google
    }

    package var service: Service
    package var kind: Kind
    /// APNs: the device token in hexadecimal, or a Live Activity's update token. FCM: the registration token. The token
    /// identifies a person's device, so it is never logged.
    package var token: String
    /// APNs: the whole JSON body, `{"aps":...}`. FCM: the JSON object `message` without its member `token`.
    package var payload: [UInt8]
    /// APNs: the `apns-collapse-id`, at most 64 bytes. On the device, a notification replaces a shown notification with
    /// the same id.
    ///
    /// FCM: the `collapse_key`. If several messages with the same key wait for the device, FCM delivers only the
    /// newest.
    ///
    /// Nil: every notification is delivered and shown.
    package var collapseID: String?
    /// The time after which the service no longer tries to deliver the notification. Nil: the service tries once.
    package var expiresAt: Moment?
    /// 10: delivered at once. 5: the service may wait, to save the device's battery.
    package var priority: Int

    package init(
        service: Service, kind: Kind, token: String, payload: [UInt8], collapseID: String? = nil,
        expiresAt: Moment? = nil, priority: Int
    ) {
        self.service = service
        self.kind = kind
        self.token = token
        self.payload = payload
        self.collapseID = collapseID
        self.expiresAt = expiresAt
        self.priority = priority
    }
}
