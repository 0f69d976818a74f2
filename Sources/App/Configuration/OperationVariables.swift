// The variables for operators (contract, sections 7 and 8): the credential for /ops, the destination of analytics
// events, and the note about changed settings.

import Secrets

extension Variables {
    static let operatorToken = Variable<Secret<String>?>.secret(
        "OPS_TOKEN", .operation, allowed: "16 to 4096 letters, digits and -._~+/=",
        "Bearer token for /ops. Access tokens with the role ops also grant access, whether or not OPS_TOKEN is set.",
        parse: { text in
            let isToken = text.utf8.allSatisfy { byte in
                byte < 0x80 && Character(Unicode.Scalar(byte)).isLetter
                    || byte < 0x80 && Character(Unicode.Scalar(byte)).isNumber || "-._~+/=".utf8.contains(byte)
            }
            return (16...4096).contains(text.utf8.count) && isToken ? Secret(text) : nil
        })

    static let analyticsHost = Variable<OutgoingURL?>.url(
        "POSTHOG_HOST", .operation,
        "Address of PostHog, or of another service with PostHog's capture protocol, such as https://eu.i.posthog.com. "
            + "The service receives every stored event."
    )

    static let analyticsKey = Variable<Secret<String>?>.secret(
        "POSTHOG_KEY", .operation, allowed: "1 to 256 printable ASCII characters",
        "The PostHog project's key.", parse: { isName($0) ? Secret($0) : nil })

    static let settingsChangedBy = Variable<String?>.text(
        "SETTINGS_CHANGED_BY", .operation, allowed: "1 to 128 bytes of text on one line",
        "Who last changed the NATIVE_ settings. This text is stored with the change, and shown on /ops and by `dwell "
            + "config history`."
    ) { isLine($0, bytesMax: 128) }

    static let settingsChangeReason = Variable<String?>.text(
        "SETTINGS_CHANGE_REASON", .operation, allowed: "1 to 500 bytes of text on one line",
        "Why the NATIVE_ settings were last changed. Rewrite this text and SETTINGS_CHANGED_BY with every change, "
            + "because the server does not store the same two texts again."
    ) { isLine($0, bytesMax: 500) }

    static let operation: [any Declaration] = watching + [operatorToken, analyticsHost, analyticsKey]

    /// Returns whether a reload applies a new value of the variable. If not, a new value takes effect only after a
    /// restart.
    static func isReloaded(_ declaration: any Declaration) -> Bool {
        declaration is EngineVariable
            || [settingsChangedBy.name, settingsChangeReason.name, settingsRulesFile.name].contains(declaration.name)
            || pageFiles.contains { $0.variable.name == declaration.name } || declaration.name == pushTextsFile.name
    }
}

struct AnalyticsConfiguration: Sendable {
    var host: OutgoingURL
    var key: Secret<String>

    /// Returns nil if the host or the key is not set. Records a problem if only one of the two is set.
    init?(_ reading: inout ConfigurationReading) {
        let host = reading.value(of: Variables.analyticsHost)
        let key = reading.value(of: Variables.analyticsKey)
        let names = [Variables.analyticsHost.name, Variables.analyticsKey.name]
        let isReported = reading.problems.contains { names.contains($0.variable) || $0.variable == names[1] + "_FILE" }
        if (host == nil) != (key == nil), !isReported {
            reading.note(
                host == nil ? names[0] : names[1],
                " is not set; allowed are both of \(names.joined(separator: " and ")), or neither")
        }
        guard let host, let key else { return nil }
        (self.host, self.key) = (host, key)
    }
}
