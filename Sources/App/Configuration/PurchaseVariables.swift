// The variables of App Store purchases (contract, sections 8 and 9).

import Foundation
import Purchases

extension Variables {
    static let purchaseApps = Variable<[AppStoreApp]>(
        name: "PURCHASE_APPS", section: .purchases, defaultText: "", defaultValue: [],
        allowed: .text(
            "1 to 32 bundle ids, comma-separated, each alone or with the Apple ID: com.example.app:1234567890"),
        isSecret: false,
        sentence: "Apps whose purchases are accepted; if not set, the routes of purchases return 404. With "
            + "APP_ENV=production and production in PURCHASE_ENVIRONMENTS, each app needs its Apple ID, a number in "
            + "App Store Connect.",
        parse: purchaseApps(in:),
        show: { apps in
            apps.isEmpty
                ? "not set"
                : apps.map { app in app.bundleID + (app.appleID.map { ":\($0)" } ?? "") }.joined(separator: ",")
        })

    static let purchaseEnvironments = Variable<Set<AppStoreEnvironment>>(
        name: "PURCHASE_ENVIRONMENTS", section: .purchases, defaultText: "production,sandbox",
        defaultValue: [.production, .sandbox],
        allowed: .text("one or more of production, sandbox, xcode, comma-separated"), isSecret: false,
        sentence: "Environments whose purchases are accepted. Apple's reviewers make sandbox purchases on the "
            + "released server. xcode accepts unsigned purchases of StoreKit testing, and is allowed only with "
            + "APP_ENV=development.",
        parse: { text in
            let words = items(in: text)
            let known: [String: [AppStoreEnvironment]] = [
                "production": [.production], "sandbox": [.sandbox], "xcode": [.xcode, .localTesting],
            ]
            let sets = words.compactMap { known[$0] }
            return sets.count == words.count ? Set(sets.joined()) : nil
        },
        show: { environments in
            [("production", .production), ("sandbox", .sandbox), ("xcode", AppStoreEnvironment.xcode)]
                .filter { environments.contains($0.1) }.map(\.0).joined(separator: ",")
        })

    static let purchaseRootFile = Variable<String?>.text(
        "PURCHASE_ROOT_CERTIFICATE_FILE", .purchases, allowed: "the path of a certificate in PEM or DER format",
        "Replaces Apple Root CA - G3 in tests that have their own certificate authority. Not allowed with "
            + "APP_ENV=production."
    ) { isPath($0) }

    static let purchaseIssuerID = Variable<String?>.text(
        "PURCHASE_API_ISSUER_ID", .purchases,
        allowed: "the issuer id of App Store Connect, 1 to 64 letters, digits and hyphens",
        "If PURCHASE_API_ISSUER_ID and the next two variables are set, the server asks Apple for missed "
            + "notifications, and for purchases of apps without StoreKit 2."
    ) { text in
        (1...64).contains(text.utf8.count)
            && text.utf8.allSatisfy { byte in
                (0x30...0x39).contains(byte) || (0x41...0x5A).contains(byte) || (0x61...0x7A).contains(byte)
                    || byte == UInt8(ascii: "-")
            }
    }

    static let purchaseKeyID = Variable<String?>.text(
        "PURCHASE_API_KEY_ID", .purchases, allowed: "1 to 64 letters and digits",
        "Apple's id of the key in PURCHASE_API_PRIVATE_KEY_FILE."
    ) { isAppleID($0) }

    static let purchaseKeyFile = Variable<String?>.text(
        "PURCHASE_API_PRIVATE_KEY_FILE", .purchases, allowed: "the path of a P-256 private key in PEM format",
        "The In-App Purchase key of App Store Connect (SubscriptionKey_....p8)."
    ) { isPath($0) }

    static let purchaseAPIURL = Variable<OutgoingURL>.url(
        "PURCHASE_API_URL", .purchases, default: "https://api.storekit.itunes.apple.com",
        "Apple's App Store Server API.")

    static let purchaseSandboxAPIURL = Variable<OutgoingURL>.url(
        "PURCHASE_API_SANDBOX_URL", .purchases, default: "https://api.storekit-sandbox.itunes.apple.com",
        "Apple's App Store Server API for the sandbox.")

    static let purchases: [any Declaration] = [
        purchaseApps, purchaseEnvironments, purchaseRootFile, purchaseIssuerID, purchaseKeyID, purchaseKeyFile,
        purchaseAPIURL, purchaseSandboxAPIURL,
    ]

    private static func purchaseApps(in text: String) -> [AppStoreApp]? {
        let items = Self.items(in: text)
        let apps = items.compactMap { item -> AppStoreApp? in
            let parts = item.split(separator: ":", maxSplits: 1, omittingEmptySubsequences: false)
            let bundle = String(parts[0])
            guard isBundleID(bundle) else { return nil }
            guard parts.count == 2 else { return AppStoreApp(bundleID: bundle, appleID: nil) }
            guard let number = wholeNumber(String(parts[1]), in: 1...Int.max) else { return nil }
            return AppStoreApp(bundleID: bundle, appleID: Int64(number))
        }
        let isUnambiguous = Set(apps.map(\.bundleID)).count == apps.count
        return (1...32).contains(items.count) && apps.count == items.count && isUnambiguous ? apps : nil
    }
}

/// The settings that determine which purchases are accepted.
struct PurchaseConfiguration: Sendable {
    var apps: [AppStoreApp]
    var environments: Set<AppStoreEnvironment>
    /// The root certificate in DER.
    var root: [UInt8]
    /// The settings for Apple's App Store Server API; nil if the API is not called.
    var api: PurchaseAPIConfiguration?

    /// Returns nil when no app is configured.
    init?(_ reading: inout ConfigurationReading, environment: AppEnvironment) {
        let apps = reading.value(of: Variables.purchaseApps)
        environments = reading.value(of: Variables.purchaseEnvironments)
        let rootFile = reading.value(of: Variables.purchaseRootFile)
        root = AppleRootCertificate.g3
        api = PurchaseAPIConfiguration(&reading)
        self.apps = apps
        if environment == .production {
            if environments.contains(.xcode) {
                reading.note(
                    Variables.purchaseEnvironments.name,
                    " with xcode is not allowed with APP_ENV=production: those purchases are not signed by Apple")
            }
            if rootFile != nil {
                reading.note(
                    Variables.purchaseRootFile.name,
                    " is not allowed with APP_ENV=production: only Apple's own root certificate is trusted there")
            }
            if environments.contains(.production), let app = apps.first(where: { $0.appleID == nil }) {
                reading.note(
                    Variables.purchaseApps.name,
                    " lacks the Apple ID of \(app.bundleID); without it its notifications cannot be verified. Allowed is "
                        + "\(app.bundleID):NUMBER, or PURCHASE_ENVIRONMENTS=sandbox")
            }
        } else if let rootFile {
            root = Self.certificate(rootFile, &reading) ?? root
        }
        if apps.isEmpty { return nil }
    }

    private static func certificate(_ path: String, _ reading: inout ConfigurationReading) -> [UInt8]? {
        let variable = Variables.purchaseRootFile
        guard let data = FileManager.default.contents(atPath: path), data.count <= 65_536 else {
            reading.note(variable.name, "=\(escaped(path)) is not allowed: it cannot be read")
            return nil
        }
        if let certificate = AppleRootCertificate.der(of: Array(data)) { return certificate }
        reading.note(variable.name, "=\(escaped(path)) is not allowed; allowed is \(variable.allowed)")
        return nil
    }
}
