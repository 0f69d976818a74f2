// Tests that text and log lines never contain a secret. The tests print the secret, and values that contain it, in all
// usual ways.

import Logging
import Secrets
import StructuredLogging
import Testing

@Suite struct SecretTests {
    struct Credentials: Sendable {
        var user = "someone"
        var password: Secret<String>
        var history: [Secret<String>]
        var spare: Secret<String>?
    }

    @Test func everyWayToTextIsRedacted() {
        let plain = "hunter2-\(UInt64.random(in: .min ... .max))"
        let secret = Secret(plain)
        let holder = Credentials(password: secret, history: [secret], spare: secret)
        var dumped = ""
        dump(holder, to: &dumped)
        dump(secret, to: &dumped)
        let mirror = Mirror(reflecting: secret)
        let texts = [
            "\(secret)", secret.description, secret.debugDescription, String(describing: secret),
            String(reflecting: secret), "\(holder)", String(reflecting: holder), dumped,
            "\([1: secret])", "\(Optional(secret) as Any)", "\(mirror)", "\(mirror.children.map { "\($0)" })",
        ]
        for text in texts { #expect(!text.contains(plain), "\(text)") }
        #expect("\(secret)" == "<redacted>")
        #expect(mirror.children.isEmpty)
        #expect(secret.reveal() == plain)
    }

    @Test(arguments: LogFormat.allCases)
    func aLogLineIsRedacted(format: LogFormat) {
        let plain = "hunter2-\(UInt64.random(in: .min ... .max))"
        let secret = Secret(plain)
        let event = LogEvent(
            level: .info, message: "signed in with \(secret)", error: SomeError(token: secret), metadata: nil,
            source: nil, file: #fileID, function: #function, line: #line)
        let metadata: Logger.Metadata = [
            "token": "\(secret)", "boxed": .stringConvertible(secret),
            "nested": ["list": .array([.stringConvertible(secret)])],
        ]
        let line = LogLine.render(event, label: "test", metadata: metadata, atMilliseconds: 0, as: format)
        let text = String(decoding: line, as: UTF8.self)
        #expect(!text.contains(plain), "\(text)")
        #expect(text.contains("<redacted>"))
    }

    struct SomeError: Error {
        var token: Secret<String>
    }
}
