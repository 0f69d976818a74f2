// Tests that no text made from the configuration contains a secret. The tests set random valid and invalid secrets, and
// then search every text for them.

import Foundation
import StructuredLogging
import TestSupport
import Testing

@testable import App

@Suite struct SecretsStayInsideTests {
    @Test(arguments: 0..<40)
    func noOutputHoldsASecret(round: Int) throws {
        let seed = UInt64.random(in: .min ... .max)
        var random = SeededRandom(seed: seed)
        // The random text is too long to occur elsewhere by chance. It may be too short for a valid key.
        func text(_ lengths: ClosedRange<Int>) -> String {
            let letters = Array("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789")
            return String(
                (0..<Int.random(in: lengths, using: &random)).map { _ in letters[Int.random(in: 0..<62, using: &random)]
                })
        }
        let key = text(12...48)
        let password = text(12...20)
        let url =
            [
                "redis://\(password)@127.0.0.1", "redis://u:\(password)@127.0.0.1:1/2", "redis://u:\(password)@:0",
                "rediss://u:\(password)@h", "redis:\(password)", password, "redis://u:\(password)@h:\(password)",
                "unix://\(password)@/run/redis.sock", "redis://h/\(password)", "\(password)\n\(password)",
            ].randomElement(using: &random) ?? password
        try withFiles([
            "key": key + "\n", "url": url, "env": "JWT_SECRET=\(key)\nREDIS_URL \(url)\nJWT_SECRET \(key)\n",
        ]) { folder in
            let secretNames = Variables.all.filter(\.isSecret).map(\.name)
            #expect(secretNames.contains("DATABASE_URL") && secretNames.contains("OPS_TOKEN"))
            func each(_ value: String, suffix: String = "") -> [String: String] {
                Dictionary(uniqueKeysWithValues: secretNames.map { ($0 + suffix, value) })
            }
            let environments: [[String: String]] = [
                each(key), each(url), each(folder + "/key", suffix: "_FILE"), each(folder + "/url", suffix: "_FILE"),
                ["DATABASE_URL": "postgres://u:\(password)@h/dwell?sslmode=require"],
                ["DATABASE_URL": "postgres://u:\(password)@h:\(password)/dwell"],
                ["DATABASE_URL": "postgres://h/dwell?password=\(password)&sslmode=\(password)"],
                ["JWT_SECRET": key, "REDIS_URL": url],
                ["JWT_SECRET_FILE": folder + "/key", "REDIS_URL_FILE": folder + "/url", "HTTP_PORT": "bad"],
                ["JWT_SECRET_FILE": folder + "/key", "JWT_SECRET": key, "REDIS_URL": url],
                ["JWT_PRIVATE_KEY_FILE": folder + "/key", "APPLE_PRIVATE_KEY_FILE": folder + "/key"],
                ["DATA_KEY": key, "OTP_WEBHOOK_SECRET": key, "OTP_DELIVERY": "webhook"],
                [
                    "OTP_WEBHOOK_URL": "https://sms.example/\(password)?\(password)", "OTP_DELIVERY": "webhook",
                    "OTP_WEBHOOK_SECRET": key + key,
                ],
                ["DATA_KEY_FILE": folder + "/key", "OTP_WEBHOOK_SECRET_FILE": folder + "/key", "APPLE_TEAM_ID": "T"],
                ["PUSH_APNS_KEY_FILE": folder + "/key", "PUSH_APNS_TEAM_ID": "T"],
                ["PUSH_FCM_SERVICE_ACCOUNT_FILE": folder + "/key"],
                ["ENV_FILE": folder + "/env"],
            ]
            for environment in environments {
                for text in try everyText(of: report(environment)) {
                    let bytes = Data(text.utf8)
                    let isSafe = [key, password].allSatisfy { bytes.range(of: Data($0.utf8)) == nil }
                    #expect(isSafe, "seed \(seed): \(text)")
                }
            }
        }
    }

    func everyText(of report: ConfigurationReport) throws -> [String] {
        var dumped = ""
        dump(report, to: &dumped, maxDepth: 20)
        return [
            report.table(), try report.json(), dumped, "\(report)", String(reflecting: report),
            "\(report.problems)", "\(report.warnings)", "\(String(describing: report.configuration))",
        ]
    }
}
