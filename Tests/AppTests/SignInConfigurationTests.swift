// Tests of the rules for the sign-in variables: which must be set together, which values production rejects, and which
// URLs the server may call.

import Foundation
import Identity
import Secrets
import Testing

@testable import App

@Suite struct SignInConfigurationTests {
    @Test func withoutAnythingSetTheContractsDefaultsHold() throws {
        let configuration = try #require(report().configuration)
        #expect(configuration.apple.clientIDs.isEmpty && configuration.apple.codeExchange == nil)
        #expect(configuration.apple.keySetURL.text == "https://appleid.apple.com/auth/keys")
        #expect(configuration.apple.tokenURL.text == "https://appleid.apple.com/auth/token")
        #expect(configuration.apple.revokeURL.text == "https://appleid.apple.com/auth/revoke")
        #expect(configuration.codes.limits == CodeSendLimits() && configuration.tokens.dataKey == nil)
        guard case .log = configuration.codes.delivery else {
            Issue.record("codes are not written to the log")
            return
        }
    }

    // MARK: Apple

    @Test(arguments: [("a", ["a"]), ("com.example.app, com.example.web", ["com.example.app", "com.example.web"])])
    func clientIDs(text: String, expected: [String]) throws {
        #expect(try #require(report(["APPLE_CLIENT_IDS": text]).configuration).apple.clientIDs == expected)
    }

    @Test(arguments: [",", "a,", ",a", "a,,b", "a b", "\u{e4}", String(repeating: "a,", count: 32) + "a"])
    func clientIDsThatAreNone(text: String) {
        #expect(report(["APPLE_CLIENT_IDS": text]).problems.map(\.variable) == ["APPLE_CLIENT_IDS"])
    }

    /// Tests every subset of the four variables.
    @Test(arguments: 0..<16) func theExchangeNeedsAllOfItsVariables(subset: Int) throws {
        try withFiles(["key.p8": ConfigurationTests.p256PrivateKeyPEM]) { folder in
            let values = [
                ("APPLE_TEAM_ID", "ABCDE12345"), ("APPLE_KEY_ID", "KEY1234567"),
                ("APPLE_PRIVATE_KEY_FILE", folder + "/key.p8"),
                ("DATA_KEY", String(repeating: "0f", count: 32)),
            ]
            let set = values.indices.filter { subset >> $0 & 1 == 1 }
            let report = report(Dictionary(uniqueKeysWithValues: set.map { values[$0] }))
            let ofApple = set.filter { $0 < 3 }
            switch (ofApple.count, set.contains(3)) {
            case (0, _):
                #expect(report.problems.isEmpty && report.configuration?.apple.codeExchange == nil)
            case (3, true):
                let exchange = try #require(report.configuration?.apple.codeExchange)
                #expect(exchange.teamID == "ABCDE12345" && exchange.keyID == "KEY1234567")
            case (3, false): #expect(report.problems.map(\.variable) == ["DATA_KEY"])
            default:
                let missing = (0..<3).first { !set.contains($0) }.map { values[$0].0 }
                #expect(report.problems.map(\.variable) == [missing])
            }
        }
    }

    @Test func theKeyOfAppleMustBeOne() throws {
        try withFiles(["key.p8": "nonsense"]) { folder in
            for path in [folder + "/key.p8", "/nonexistent"] {
                let problems = report([
                    "APPLE_TEAM_ID": "T", "APPLE_KEY_ID": "K", "APPLE_PRIVATE_KEY_FILE": path,
                    "DATA_KEY": String(repeating: "0f", count: 32),
                ]).problems
                #expect(problems.map(\.variable) == ["APPLE_PRIVATE_KEY_FILE"])
            }
        }
    }

    // MARK: The data key

    static let dataKey = (0..<32).map { UInt8(255 - $0 * 5) }

    @Test(arguments: [
        Data(dataKey).base64EncodedString(), String(Data(dataKey).base64EncodedString().dropLast()),
        Data(dataKey).base64EncodedString().replacing("+", with: "-").replacing("/", with: "_"),
        dataKey.map { ($0 < 16 ? "0" : "") + String($0, radix: 16) }.joined(),
        dataKey.map { ($0 < 16 ? "0" : "") + String($0, radix: 16).uppercased() }.joined(),
    ])
    func theDataKeyInEachNotation(text: String) throws {
        #expect(try #require(report(["DATA_KEY": text]).configuration).tokens.dataKey?.reveal() == Self.dataKey)
    }

    @Test(arguments: [
        "x", String(repeating: "0f", count: 31), String(repeating: "0f", count: 33), String(repeating: "0g", count: 32),
        Data(dataKey.dropLast()).base64EncodedString(), Data(dataKey + [0]).base64EncodedString(),
        Data(dataKey).base64EncodedString() + "=", Data(dataKey).base64EncodedString() + "\n",
        "=" + Data(dataKey).base64EncodedString(), "a secret of the tests, 32 bytes.",
    ])
    func whatIsNoDataKey(text: String) {
        let problems = report(["DATA_KEY": text]).problems
        #expect(problems.map(\.variable) == ["DATA_KEY"])
        #expect(problems.allSatisfy { !$0.description.contains(text) || text.count == 1 })
    }

    // MARK: One-time codes

    @Test func productionWritesNoCodesToTheLog() throws {
        let key = ["APP_ENV": "production", "JWT_SECRET": ConfigurationTests.secret]
        let refused = report(key.merging(["OTP_DELIVERY": "log"]) { $1 })
        #expect(refused.problems.map(\.variable) == ["OTP_DELIVERY"])
        guard case .none? = report(key).configuration?.codes.delivery else {
            Issue.record("production sends codes that nobody configured")
            return
        }
    }

    @Test func aWebhookNeedsItsURLAndItsSecret() throws {
        let all = [
            "OTP_DELIVERY": "webhook", "OTP_WEBHOOK_URL": "https://sms.example/send",
            "OTP_WEBHOOK_SECRET": "sixteen bytes or",
        ]
        guard case .webhook(let url, let secret)? = report(all).configuration?.codes.delivery else {
            Issue.record("the webhook is not configured")
            return
        }
        #expect(url.reveal().text == "https://sms.example/send" && secret.reveal() == "sixteen bytes or")
        for name in ["OTP_WEBHOOK_URL", "OTP_WEBHOOK_SECRET"] {
            #expect(report(all.filter { $0.key != name }).problems.map(\.variable) == [name])
        }
        let bad = report(all.merging(["OTP_WEBHOOK_URL": "http://sms.example", "OTP_WEBHOOK_SECRET": "short"]) { $1 })
        #expect(bad.problems.map(\.variable) == ["OTP_WEBHOOK_URL", "OTP_WEBHOOK_SECRET"])
    }

    @Test(arguments: [
        ("https://sms.example/hooks/T0/hush?key=hush", "https://sms.example"),
        ("https://sms.example:8443?hush", "https://sms.example:8443"), ("http://[::1]:80/hush", "http://[::1]:80"),
    ])
    func `only the origin of the webhook is shown`(url: String, shown: String) throws {
        let report = report(["OTP_WEBHOOK_URL": url])
        #expect(report.problems.isEmpty)
        #expect(try variable("OTP_WEBHOOK_URL", in: report).shown == shown)
    }

    @Test func `a webhook that is not allowed is not shown`() {
        let report = report(["OTP_WEBHOOK_URL": "https://user:hush@sms.example/hush"])
        #expect(report.problems.map(\.variable) == ["OTP_WEBHOOK_URL"])
        #expect(!"\(report.problems)".contains("hush"))
    }

    // MARK: URLs

    @Test(arguments: [
        "https://example.com", "https://example.com:8443/a?b=c", "http://127.0.0.1:9000/keys", "http://127.1.2.3/",
        "http://localhost/x", "http://[::1]:80/x",
    ])
    func mayBeCalled(url: String) {
        #expect(OutgoingURL(url)?.text == url)
    }

    @Test(arguments: [
        "", "example.com", "/auth/keys", "http://example.com", "http://127.0.0.1.example.com", "http://127.0.0.1@evil",
        "http://127.1/", "http://0.0.0.0", "http://[::2]", "ftp://localhost", "file:///etc/passwd", "https://",
        "https://user:pass@example.com", "https://example.com/#x", "https://exa mple.com", "https://example.com\n",
        "https://example.com:0", "https://example.com:65536", "http://localhost.example.com",
    ])
    func mayNotBeCalled(url: String) {
        #expect(OutgoingURL(url) == nil)
    }

    @Test(arguments: Variables.signIn.map(\.name)) func everyDefaultIsATextThatIsAllowed(name: String) throws {
        let declaration = try #require(Variables.all.first { $0.name == name })
        #expect(declaration.isOptional || declaration.accepts(declaration.defaultText))
    }
}
