// The variables of sign-in (contract, sections 6 and 8): Sign in with Apple, and one-time codes.

import Secrets

extension Variables {
    // MARK: Sign in with Apple

    static let appleClientIDs = Variable<[String]>(
        name: "APPLE_CLIENT_IDS", section: .apple, defaultText: "", defaultValue: [],
        allowed: .text("1 to 32 client ids, comma-separated, each of 1 to 256 printable ASCII characters"),
        isSecret: false,
        sentence: "Bundle ids and service ids whose identity tokens are accepted. Default: none.",
        parse: { text in
            let ids = text.split(separator: ",", omittingEmptySubsequences: false)
                .map { $0.drop { $0 == " " } }.map { String($0.reversed().drop { $0 == " " }.reversed()) }
            return (1...32).contains(ids.count) && ids.allSatisfy(isName) ? ids : nil
        },
        show: { $0.isEmpty ? "not set" : $0.joined(separator: ",") })

    static let appleKeySetURL = Variable<OutgoingURL>.url(
        "APPLE_JWKS_URL", .apple, default: "https://appleid.apple.com/auth/keys",
        "Address of Apple's public keys. The server fetches them about once an hour.")

    static let appleTeamID = Variable<String?>.text(
        "APPLE_TEAM_ID", .apple, allowed: "Apple's team id of 1 to 64 letters and digits",
        "If APPLE_TEAM_ID and the next two variables are set, the server exchanges authorization codes. A deletion "
            + "can then revoke the driver's tokens at Apple."
    ) { isAppleID($0) }

    static let appleKeyID = Variable<String?>.text(
        "APPLE_KEY_ID", .apple, allowed: "1 to 64 letters and digits",
        "Apple's id of the key in APPLE_PRIVATE_KEY_FILE."
    ) { isAppleID($0) }

    static let applePrivateKeyFile = Variable<String?>.text(
        "APPLE_PRIVATE_KEY_FILE", .apple, allowed: "the path of a P-256 private key in PEM format",
        "The key for Sign in with Apple (AuthKey_....p8). It signs requests to Apple's token endpoint."
    ) { isPath($0) }

    static let appleTokenURL = Variable<OutgoingURL>.url(
        "APPLE_TOKEN_URL", .apple, default: "https://appleid.apple.com/auth/token",
        "Endpoint that exchanges authorization codes.")

    static let appleRevokeURL = Variable<OutgoingURL>.url(
        "APPLE_REVOKE_URL", .apple, default: "https://appleid.apple.com/auth/revoke",
        "Endpoint that revokes the tokens of a deleted driver.")

    // MARK: One-time codes

    static let otpDelivery = Variable<OTPDelivery?>.words(
        "OTP_DELIVERY", .codes, unset: "log in development, none in production",
        "With log, the server writes codes to its log; with webhook, it posts codes to OTP_WEBHOOK_URL. Default: log; "
            + "with APP_ENV=production, log is not allowed, and by default no codes are sent.")

    /// The URL is a secret, because the URLs of many messaging services contain a key in the path or the query.
    static let otpWebhookURL = Variable<Secret<OutgoingURL>?>.secret(
        "OTP_WEBHOOK_URL", .codes, allowed: OutgoingURL.allowed,
        "Receives {\"phone\",\"code\",\"expires_in\"} in a signed POST.",
        parse: { OutgoingURL($0).map { Secret($0) } }, show: { $0.reveal().origin })

    static let otpWebhookSecret = Variable<Secret<String>?>.secret(
        "OTP_WEBHOOK_SECRET", .codes, allowed: "at least 16 bytes",
        "Signs the requests to OTP_WEBHOOK_URL (HMAC-SHA256 in X-Dwell-Signature).",
        parse: { $0.utf8.count >= 16 ? Secret($0) : nil })

    static let otpSendsPerNumber = Variable<Int>.integer(
        "OTP_SENDS_PER_NUMBER", .codes, default: 5, in: 1...1000,
        "Maximum number of codes per hour to one phone number.")

    static let otpSendsPerAddress = Variable<Int>.integer(
        "OTP_SENDS_PER_ADDRESS", .codes, default: 20, in: 1...1_000_000,
        "Maximum number of codes per hour at the request of one client address (IPv6: one /64).")

    static let otpSendsPerNetwork = Variable<Int>.integer(
        "OTP_SENDS_PER_NETWORK", .codes, default: 60, in: 1...1_000_000,
        "Maximum number of codes per hour at the request of one network (IPv6 /56 or IPv4 /24).")

    static let otpSendsPerSite = Variable<Int>.integer(
        "OTP_SENDS_PER_SITE", .codes, default: 100, in: 1...1_000_000,
        "Maximum number of codes per hour at the request of one IPv6 /48.")

    static let otpSendsPerPrefix = Variable<Int>.integer(
        "OTP_SENDS_PER_PREFIX", .codes, default: 200, in: 1...1_000_000,
        "Maximum number of codes per hour to all phone numbers without an account that have the same first six digits.")

    static let otpSendsTotal = Variable<Int>.integer(
        "OTP_SENDS_TOTAL", .codes, default: 1000, in: 1...1_000_000, "Maximum number of codes per hour in total.")

    static let otpSendsKnownPercent = Variable<Int>.integer(
        "OTP_SENDS_KNOWN_PERCENT", .codes, default: 30, in: 0...100,
        "Percentage of OTP_SENDS_TOTAL that is reserved for numbers with an account. When the rest is used up, or "
            + "OTP_SENDS_PER_PREFIX is reached, other numbers get the usual response but no code.")

    static let signIn: [any Declaration] = [
        appleClientIDs, appleKeySetURL, appleTeamID, appleKeyID, applePrivateKeyFile, appleTokenURL, appleRevokeURL,
        otpDelivery, otpWebhookURL, otpWebhookSecret, otpSendsPerNumber, otpSendsPerAddress, otpSendsPerNetwork,
        otpSendsPerSite, otpSendsPerPrefix, otpSendsTotal, otpSendsKnownPercent,
    ]

    static func isAppleID(_ text: String) -> Bool {
        (1...64).contains(text.utf8.count) && text.allSatisfy { $0.isASCII && ($0.isLetter || $0.isNumber) }
    }
}

/// The values of `OTP_DELIVERY`.
enum OTPDelivery: String, CaseIterable, Sendable {
    case log, webhook
}

extension Variable<OutgoingURL> {
    /// - Parameter requiresTLS: whether http URLs are rejected. True for services that are called over HTTP/2, because
    ///   these calls need TLS.
    static func url(
        _ name: String, _ section: VariableSection, default value: OutgoingURL, requiresTLS: Bool = false,
        _ sentence: String
    ) -> Self {
        Variable(
            name: name, section: section, defaultText: value.text, defaultValue: value,
            allowed: .text(requiresTLS ? OutgoingURL.secureAllowed : OutgoingURL.allowed), isSecret: false,
            sentence: sentence,
            parse: { text in OutgoingURL(text).flatMap { $0.isSecure || !requiresTLS ? $0 : nil } },
            show: { $0.text })
    }
}

extension Variable<OutgoingURL?> {
    static func url(_ name: String, _ section: VariableSection, _ sentence: String) -> Self {
        Variable(
            name: name, section: section, defaultText: "", defaultValue: nil,
            allowed: .text(OutgoingURL.allowed), isSecret: false, sentence: sentence,
            parse: { OutgoingURL($0).map(Optional.some) }, show: { $0?.text ?? "not set" })
    }
}
