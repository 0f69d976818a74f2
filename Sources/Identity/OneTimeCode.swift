// The digits of a one-time code. AccountRules.swift has the rules, for example how long a code is valid.

import Secrets

enum OneTimeCode {
    /// Six digits, uniformly distributed, from the system's random source.
    static func random() -> Secret<String> {
        let digits = String(UInt32.random(in: 0..<1_000_000))
        return Secret(String(repeating: "0", count: 6 - digits.utf8.count) + digits)
    }
}
