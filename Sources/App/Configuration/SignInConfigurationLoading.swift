// The rules that involve several sign-in variables: which variables must be set together, and which values are invalid
// in production.

import Identity
import Secrets

extension AppleConfiguration {
    init(_ reading: inout ConfigurationReading, hasDataKey: Bool) {
        clientIDs = reading.value(of: Variables.appleClientIDs)
        keySetURL = reading.value(of: Variables.appleKeySetURL)
        tokenURL = reading.value(of: Variables.appleTokenURL)
        revokeURL = reading.value(of: Variables.appleRevokeURL)
        codeExchange = Self.codeExchange(&reading, hasDataKey: hasDataKey)
    }

    /// Returns nil if the team id, the key id or the key file is not set. Records a problem if only some of the three
    /// are set. DATA_KEY is required too, because Apple's tokens are stored encrypted.
    private static func codeExchange(_ reading: inout ConfigurationReading, hasDataKey: Bool) -> CodeExchange? {
        let teamID = reading.value(of: Variables.appleTeamID)
        let keyID = reading.value(of: Variables.appleKeyID)
        let path = reading.value(of: Variables.applePrivateKeyFile)
        let names = [Variables.appleTeamID.name, Variables.appleKeyID.name, Variables.applePrivateKeyFile.name]
        let missing = zip(names, [teamID, keyID, path]).filter { $0.1 == nil }.map(\.0)
        guard missing.count < names.count else { return nil }
        let isReported = reading.problems.contains { names.contains($0.variable) }
        guard let teamID, let keyID, let path else {
            if !isReported {
                reading.note(missing[0], " is not set; allowed are all of \(names.joined(separator: ", ")), or none")
            }
            return nil
        }
        let dataKey = Variables.dataKey
        if !hasDataKey, !reading.problems.contains(where: { $0.variable.hasPrefix(dataKey.name) }) {
            reading.note(dataKey.name, " is not set; with \(names[0]) it must be: \(dataKey.allowed)")
        }
        guard let key = reading.privateKey(Variables.applePrivateKeyFile, path) else { return nil }
        return CodeExchange(teamID: teamID, keyID: keyID, key: key)
    }

}

extension ConfigurationReading {
    /// Returns the P-256 key in the file that `variable` names. If the file contains no such key, records a problem and
    /// returns nil.
    mutating func privateKey(_ variable: Variable<String?>, _ path: String) -> SigningKey? {
        do {
            let pem = Secret(try readTextFile(path, bytesMax: 65_536))
            if let key = try? SigningKey(privateKeyPEM: pem) { return key }
            note(variable.name, "=\(escaped(path)) is not allowed; allowed is \(variable.allowed)")
        } catch {
            note(variable.name, "=\(escaped(path)) is not allowed: \(error.reason)")
        }
        return nil
    }
}

extension CodeConfiguration {
    init(_ reading: inout ConfigurationReading, environment: AppEnvironment) {
        let chosen = reading.value(of: Variables.otpDelivery)
        let url = reading.value(of: Variables.otpWebhookURL)
        let secret = reading.value(of: Variables.otpWebhookSecret)
        limits = CodeSendLimits(
            perNumber: reading.value(of: Variables.otpSendsPerNumber),
            perAddress: reading.value(of: Variables.otpSendsPerAddress),
            perNetwork: reading.value(of: Variables.otpSendsPerNetwork),
            perSite: reading.value(of: Variables.otpSendsPerSite),
            perPrefix: reading.value(of: Variables.otpSendsPerPrefix),
            total: reading.value(of: Variables.otpSendsTotal),
            knownPercent: reading.value(of: Variables.otpSendsKnownPercent))
        switch chosen {
        case nil: delivery = environment == .production ? .none : .log
        case .log:
            delivery = .log
            if environment == .production {
                reading.note(
                    Variables.otpDelivery.name,
                    "=log is not allowed with APP_ENV=production: it writes codes to the log")
            }
        case .webhook: delivery = Self.webhook(url, secret, &reading)
        }
    }

    private static func webhook(
        _ url: Secret<OutgoingURL>?, _ secret: Secret<String>?, _ reading: inout ConfigurationReading
    ) -> Delivery {
        if let url, let secret { return .webhook(url, secret: secret) }
        let names = [(Variables.otpWebhookURL.name, url == nil), (Variables.otpWebhookSecret.name, secret == nil)]
        for (name, isMissing) in names
        where isMissing && !reading.problems.contains(where: { $0.variable.hasPrefix(name) }) {
            reading.note(name, " is not set; with OTP_DELIVERY=webhook it must be")
        }
        return .none
    }
}
