// How long to wait after a failure. Randomness is passed in.

import JourneyModel

enum Backoff {
    /// 1, 2, 4 s as shipped clients do, then doubled up to a minute (docs/client.md).
    static let secondsMax = 60
    /// The most that a server asks for (contract, section 5); more than this a proxy may ask for in vain.
    static let retryAfterSecondsMax = 3600
    /// No wait is longer than this. One that seems to be was computed before the clock was set back.
    static let waitMillisecondsMax = Int64(retryAfterSecondsMax + secondsMax) * 1000

    /// After the `failures`-th failure in a row, from 1 on: 1, 2, 4 ... 60 s or what the server asked for, whichever
    /// is later, and on top up to half of the former at random, so that phones that failed together do not come back
    /// together. Never earlier than either.
    static func milliseconds(
        failures: Int, retryAfterSeconds: Int?, using random: inout some RandomNumberGenerator
    ) -> Int64 {
        let doublings = min(max(failures - 1, 0), 6)
        let seconds = min(1 << doublings, secondsMax)
        let asked = min(max(retryAfterSeconds ?? 0, 0), retryAfterSecondsMax)
        return Int64(max(seconds, asked)) * 1000 + Int64.random(in: 0...Int64(seconds) * 500, using: &random)
    }
}
