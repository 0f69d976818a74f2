/// An app whose purchases this server accepts.
package struct AppStoreApp: Hashable, Sendable {
    /// The bundle id as in Xcode, for example `com.example.dwell`. It is compared byte for byte.
    package var bundleID: String
    /// The app's Apple ID in App Store Connect. Apple sends it as `appAppleId`, only in production notifications. If it
    /// is nil, all production notifications are rejected.
    package var appleID: Int64?

    package init(bundleID: String, appleID: Int64?) {
        self.bundleID = bundleID
        self.appleID = appleID
    }
}

/// Where a purchase was made, in Apple's spelling (`environment` of every payload).
package enum AppStoreEnvironment: String, Hashable, Sendable, CaseIterable {
    case production = "Production"
    /// Sandbox accounts, TestFlight, and App Review, which uses the production server. Sandbox purchases are accepted,
    /// and counted separately.
    case sandbox = "Sandbox"
    /// StoreKit testing in Xcode. Xcode generates the certificate that signs, so the signature cannot be verified.
    case xcode = "Xcode"
    case localTesting = "LocalTesting"

    /// Whether Apple signs data of this environment.
    package var isSignedByApple: Bool { self == .production || self == .sandbox }
}
