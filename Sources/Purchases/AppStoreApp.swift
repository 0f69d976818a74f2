/// An app whose purchases this server accepts.
package struct AppStoreApp: Hashable, Sendable {
    /// The bundle id as in Xcode, for example `com.example.dwell`. It is compared byte for byte.
    package var bundleID: String
    /// The app's Apple ID in App Store Connect. Apple documents it only for production notifications, as `appAppleId`.
    /// In sandbox notifications, the Apple ID is not checked.
    ///
    /// If this property is nil, this server cannot check the Apple ID of notifications from outside the sandbox. It
    /// then rejects those with an `appAppleId`, and those that must have one (`NotificationEnvelope.App.needsAppleID`).
    package var appleID: Int64?

    package init(bundleID: String, appleID: Int64?) {
        self.bundleID = bundleID
        self.appleID = appleID
    }
}

/// The App Store environment in which a purchase was made. The raw values are those of `environment` in Apple's
/// payloads.
package enum AppStoreEnvironment: String, Hashable, Sendable, CaseIterable {
    case production = "Production"
    /// Purchases by sandbox accounts and through TestFlight. Apple's App Review tests the released app with sandbox
    /// purchases, so a production server accepts them too. They are counted separately.
    case sandbox = "Sandbox"
    /// StoreKit testing in Xcode. Xcode generates the signing certificate itself, so this server cannot verify the
    /// signature.
    case xcode = "Xcode"
    case localTesting = "LocalTesting"

    /// Whether Apple signs data of this environment.
    package var isSignedByApple: Bool { self == .production || self == .sandbox }
}
