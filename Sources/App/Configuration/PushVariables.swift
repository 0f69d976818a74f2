// The variables of push notifications (contract, section 8): the credentials for APNs and FCM.

import Foundation
import Identity
import JourneyModel
import Push

extension Variables {
    static let pushAPNsTeamID = Variable<String?>.text(
        "PUSH_APNS_TEAM_ID", .push, allowed: "Apple's team id of 1 to 64 letters and digits",
        "If PUSH_APNS_TEAM_ID and the next three variables are set, the server can send notifications to iOS apps."
    ) { isAppleID($0) }

    static let pushAPNsKeyID = Variable<String?>.text(
        "PUSH_APNS_KEY_ID", .push, allowed: "1 to 64 letters and digits",
        "Apple's id of the key in PUSH_APNS_KEY_FILE."
    ) { isAppleID($0) }

    static let pushAPNsKeyFile = Variable<String?>.text(
        "PUSH_APNS_KEY_FILE", .push, allowed: "the path of a P-256 private key in PEM format, not accessible to others",
        "The team's key for APNs (AuthKey_....p8)."
    ) { isPath($0) }

    static let pushAPNsTopic = Variable<String?>.text(
        "PUSH_APNS_TOPIC", .push, allowed: "1 to 155 letters, digits, dots and hyphens",
        "The app's bundle id."
    ) { isBundleID($0) }

    static let pushFCMServiceAccountFile = Variable<String?>.text(
        "PUSH_FCM_SERVICE_ACCOUNT_FILE", .push,
        allowed: "the path of a service account's key in JSON format, not accessible to others",
        "The key of a Google service account that may send Firebase messages. If set, the server can send "
            + "notifications to Android apps."
    ) { isPath($0) }

    static let pushAPNsURL = Variable<OutgoingURL>.url(
        "PUSH_APNS_URL", .push, default: "https://api.push.apple.com", requiresTLS: true,
        "APNs for released apps.")

    static let pushAPNsSandboxURL = Variable<OutgoingURL>.url(
        "PUSH_APNS_SANDBOX_URL", .push, default: "https://api.sandbox.push.apple.com", requiresTLS: true,
        "APNs for apps that Xcode installed.")

    static let pushFCMURL = Variable<OutgoingURL>.url(
        "PUSH_FCM_URL", .push, default: "https://fcm.googleapis.com", requiresTLS: true,
        "Firebase Cloud Messaging.")

    static let pushAuthorityFile = Variable<String?>.text(
        "PUSH_CA_FILE", .push, allowed: "the path of certificates in PEM format",
        "Certificates that the server trusts for the three URLs above, in addition to the system's. For tests; "
            + "rejected with APP_ENV=production."
    ) { isPath($0) }

    static let push: [any Declaration] = [
        pushAPNsTeamID, pushAPNsKeyID, pushAPNsKeyFile, pushAPNsTopic, pushFCMServiceAccountFile, pushAPNsURL,
        pushAPNsSandboxURL, pushFCMURL, pushAuthorityFile, pushTextsFile,
    ]
}

/// The services that deliver notifications, with the server's credentials for them.
struct PushConfiguration: Sendable {
    struct Apple: Sendable {
        var teamID: String
        var keyID: String
        /// The P-256 key for ES256 signatures.
        var key: SigningKey
        /// The app's bundle id.
        var topic: String
        var url: OutgoingURL
        var sandboxURL: OutgoingURL
    }

    struct Google: Sendable {
        var account: GoogleServiceAccount
        /// The `token_uri` of the service account.
        var tokenURL: OutgoingURL
        var url: OutgoingURL
    }

    /// Nil if the server sends no notifications to iOS apps.
    var apple: Apple?
    /// Nil if the server sends no notifications to Android apps.
    var google: Google?
    /// The value of `PUSH_CA_FILE`: the path of a PEM file whose certificates are trusted in addition to the system's.
    var authorityFile: String?
    var texts: PushTexts

    /// Returns nil if no push service is configured.
    init?(_ reading: inout ConfigurationReading, environment: AppEnvironment) {
        apple = Self.apple(&reading)
        google = Self.google(&reading)
        authorityFile = reading.value(of: Variables.pushAuthorityFile)
        texts = PushTexts(&reading)
        if let path = authorityFile {
            if environment == .production {
                reading.note(
                    Variables.pushAuthorityFile.name,
                    " is not allowed with APP_ENV=production: only the system's certificates are trusted there")
            } else {
                reading.requireReadable(Variables.pushAuthorityFile, path)
            }
        }
        if apple == nil, google == nil { return nil }
    }

    /// Returns nil if the team id, the key id, the key file or the topic is not set. Records a problem if only some of
    /// the four are set.
    private static func apple(_ reading: inout ConfigurationReading) -> Apple? {
        let teamID = reading.value(of: Variables.pushAPNsTeamID)
        let keyID = reading.value(of: Variables.pushAPNsKeyID)
        let path = reading.value(of: Variables.pushAPNsKeyFile)
        let topic = reading.value(of: Variables.pushAPNsTopic)
        let url = reading.value(of: Variables.pushAPNsURL)
        let sandboxURL = reading.value(of: Variables.pushAPNsSandboxURL)
        let names = [
            Variables.pushAPNsTeamID.name, Variables.pushAPNsKeyID.name, Variables.pushAPNsKeyFile.name,
            Variables.pushAPNsTopic.name,
        ]
        let missing = zip(names, [teamID, keyID, path, topic]).filter { $0.1 == nil }.map(\.0)
        guard missing.count < names.count else { return nil }
        guard let teamID, let keyID, let path, let topic else {
            if !reading.problems.contains(where: { names.contains($0.variable) }) {
                reading.note(missing[0], " is not set; allowed are all of \(names.joined(separator: ", ")), or none")
            }
            return nil
        }
        guard reading.requireClosed(Variables.pushAPNsKeyFile, path),
            let key = reading.privateKey(Variables.pushAPNsKeyFile, path)
        else { return nil }
        return Apple(teamID: teamID, keyID: keyID, key: key, topic: topic, url: url, sandboxURL: sandboxURL)
    }

    private static func google(_ reading: inout ConfigurationReading) -> Google? {
        let variable = Variables.pushFCMServiceAccountFile
        let url = reading.value(of: Variables.pushFCMURL)
        guard let path = reading.value(of: variable), reading.requireClosed(variable, path) else { return nil }
        let reason: String
        do {
            let text = try readTextFile(path, bytesMax: 65_536)
            let account = try GoogleServiceAccount(json: Array(text.utf8))
            if let tokenURL = OutgoingURL(account.tokenURI) {
                return Google(account: account, tokenURL: tokenURL, url: url)
            }
            reason = "its token_uri must be \(OutgoingURL.allowed)"
        } catch let error as GoogleServiceAccount.Unreadable {
            reason = error.reason
        } catch let error as TextFileError {
            reason = error.reason
        } catch {
            reason = "it cannot be read"
        }
        reading.note(variable.name, "=\(escaped(path)) is not allowed: \(reason)")
        return nil
    }
}

extension ConfigurationReading {
    /// If users other than the file's owner and group can access the file, records a problem and returns false. Returns
    /// true for a missing file, because the code that reads the file reports it.
    fileprivate mutating func requireClosed(_ variable: Variable<String?>, _ path: String) -> Bool {
        var status = stat()
        guard stat(path, &status) == 0, status.st_mode & 0o007 != 0 else { return true }
        note(variable.name, "=\(escaped(path)) is not allowed: other users can access the file; chmod o= it")
        return false
    }

    fileprivate mutating func requireReadable(_ variable: Variable<String?>, _ path: String) {
        do {
            _ = try readTextFile(path, bytesMax: 1 << 22)
        } catch {
            note(variable.name, "=\(escaped(path)) is not allowed: \(error.reason)")
        }
    }
}
