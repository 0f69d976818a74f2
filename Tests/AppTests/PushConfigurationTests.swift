// Tests the rules for the variables PUSH_APNS_... and PUSH_FCM_...: allowed values, variables that belong together, and
// access rights of the files. Also tests the texts of `dwell push-test`.

import Foundation
import JourneyModel
import Push
import Testing

@testable import App

@Suite struct PushConfigurationTests {
    private static let key = """
        -----BEGIN PRIVATE KEY-----
        MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQgevZzL1gdAFr88hb2
        OF/2NxApJCzGCEDdfSp6VQO30hyhRANCAAQRWz+jn65BtOMvdyHKcvjBeBSDZH2r
        1RTwjmYSi9R/zpBnuQ4EiMnCqfMPWiZqB4QdbAd0E7oH50VpuZ1P087G
        -----END PRIVATE KEY-----
        """

    private func withKey<Answer>(mode: Int = 0o600, _ body: ([String: String]) throws -> Answer) throws -> Answer {
        try withFiles(["key.p8": Self.key, "account.json": "{}"]) { folder in
            for name in ["key.p8", "account.json"] {
                try FileManager.default.setAttributes([.posixPermissions: mode], ofItemAtPath: folder + "/" + name)
            }
            return try body([
                "PUSH_APNS_TEAM_ID": "TEAM123456", "PUSH_APNS_KEY_ID": "KEY1234567",
                "PUSH_APNS_KEY_FILE": folder + "/key.p8", "PUSH_APNS_TOPIC": "org.example.chargers",
            ])
        }
    }

    @Test func withoutAnySettingNothingIsSent() throws {
        #expect(try #require(report().configuration).push == nil)
    }

    @Test func theFourForAPNs() throws {
        try withKey { environment in
            let push = try #require(report(environment).configuration?.push)
            #expect(push.apple?.topic == "org.example.chargers" && push.apple?.keyID == "KEY1234567")
            #expect(push.apple?.url.text == "https://api.push.apple.com" && push.google == nil)
            for name in environment.keys {
                let incomplete = report(environment.filter { $0.key != name })
                #expect(incomplete.problems.map(\.variable) == [name], "\(incomplete.problems)")
            }
        }
    }

    @Test(arguments: [0o604, 0o602, 0o601, 0o644, 0o666])
    func filesThatOthersCanAccess(mode: Int) throws {
        try withKey(mode: mode) { environment in
            let problems = report(environment).problems
            #expect(problems.map(\.variable) == ["PUSH_APNS_KEY_FILE"])
            #expect(problems.first?.detail.contains("other users") == true)
        }
    }

    @Test(arguments: [0o600, 0o400, 0o440, 0o640])
    func filesOfOwnerAndGroup(mode: Int) throws {
        try withKey(mode: mode) { environment in #expect(report(environment).problems.isEmpty) }
    }

    @Test func urlsMustBeHTTPS() throws {
        for name in ["PUSH_APNS_URL", "PUSH_APNS_SANDBOX_URL", "PUSH_FCM_URL"] {
            #expect(report([name: "http://127.0.0.1:1"]).problems.map(\.variable) == [name])
            #expect(report([name: "https://127.0.0.1:1"]).problems.isEmpty)
        }
    }

    @Test func anAccountThatIsNone() throws {
        try withKey { environment in
            let path = try #require(environment["PUSH_APNS_KEY_FILE"]).replacing("key.p8", with: "account.json")
            let problems = report(["PUSH_FCM_SERVICE_ACCOUNT_FILE": path]).problems
            #expect(problems.map(\.variable) == ["PUSH_FCM_SERVICE_ACCOUNT_FILE"])
            #expect(problems.first?.detail.contains("type") == true)
        }
    }

    @Test func anAuthorityIsForTestsOnly() throws {
        try withKey { environment in
            let path = try #require(environment["PUSH_APNS_KEY_FILE"])
            #expect(report(["PUSH_CA_FILE": path]).problems.isEmpty)
            #expect(report(["PUSH_CA_FILE": path + "x"]).problems.map(\.variable) == ["PUSH_CA_FILE"])
            let production = ["APP_ENV": "production", "JWT_SECRET": ConfigurationTests.secret, "PUSH_CA_FILE": path]
            #expect(report(production).problems.map(\.variable) == ["PUSH_CA_FILE"])
        }
    }

    // MARK: dwell push-test

    @Test func theTextsOfOutcomes() {
        let since = Moment(millisecondsSinceEpoch: 1_750_000_000_123)
        for (outcome, text) in [
            (PushOutcome.delivered, "delivered"),
            (
                .unregistered(since: since),
                "not delivered: the app is no longer on this device since 2025-06-15T15:06:40.123Z"
            ),
            (.unregistered(since: nil), "not delivered: the app is no longer on this device"),
            (
                .unavailable(reason: "Shutdown", afterSeconds: 7),
                "not delivered: the service is unavailable (Shutdown); it asks for a pause of 7 s"
            ),
            (.refused(reason: "BadPath"), "not delivered: rejected as BadPath"),
        ] {
            #expect(PushTestCommand.text(of: outcome) == text)
        }
        #expect(PushTestCommand.text(of: .refused(reason: "BadDeviceToken")).contains("--environment sandbox"))
    }

    @Test func thePayloads() {
        func payload(_ kind: PushTestCommand.Kind, google: Bool) -> String {
            String(decoding: PushTestCommand.payload(kind, text: "a \"b\"", google: google), as: UTF8.self)
        }
        #expect(payload(.alert, google: false) == #"{"aps":{"alert":"a \"b\"","sound":"default"}}"#)
        #expect(payload(.background, google: false) == #"{"aps":{"content-available":1}}"#)
        #expect(payload(.alert, google: true) == #"{"notification":{"body":"a \"b\""}}"#)
        #expect(payload(.background, google: true) == #"{"data":{"test":"1"}}"#)
    }
}
