/// An app whose purchases this server accepts.
package struct AppStoreApp: Hashable, Sendable {
    /// As in Xcode: `com.example.dwell`. Compared byte for byte.
    package var bundleID: String
    /// The number of the app in App Store Connect. Apple sends it in production notifications only, and there it is
    /// required: without it every production notification is refused.
    package var appleID: Int64?

    package init(bundleID: String, appleID: Int64?) {
        self.bundleID = bundleID
        self.appleID = appleID
    }
}

/// Where a purchase was made, in Apple's spelling (`environment` of every payload).
package enum AppStoreEnvironment: String, Hashable, Sendable, CaseIterable {
    case production = "Production"
    /// Test accounts, TestFlight, and Apple's own reviewers, who use the released server: accepted, never counted.
    case sandbox = "Sandbox"
    /// StoreKit testing in Xcode: signed by a certificate that Xcode makes up, so not verifiable.
    case xcode = "Xcode"
    case localTesting = "LocalTesting"

    /// Apple signs only these.
    package var isSignedByApple: Bool { self == .production || self == .sandbox }
}
