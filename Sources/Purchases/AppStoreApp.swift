/// An app whose purchases this server accepts.
package struct AppStoreApp: Hashable, Sendable {
    /// The bundle id as in Xcode, for example `com.example.dwell`. It is compared byte for byte.
    package var bundleID: String
    /// The app's Apple ID in App Store Connect. Only production notifications contain this id, as `appAppleId`. If the
    /// property is nil, production notifications for this app are rejected. The exceptions are notifications that do
    /// not contain the id and need not contain it (`NotificationEnvelope.App.needsAppleID`).
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
    /// Purchases by sandbox accounts and through TestFlight. App Review buys in the sandbox but uses the production
    /// server. A production server therefore accepts sandbox purchases too. They are counted separately.
    case sandbox = "Sandbox"
    /// StoreKit testing in Xcode. Xcode generates the signing certificate itself, so this server cannot verify the
    /// signature.
    case xcode = "Xcode"
    case localTesting = "LocalTesting"

    /// Whether Apple signs data of this environment.
    package var isSignedByApple: Bool { self == .production || self == .sandbox }
}
