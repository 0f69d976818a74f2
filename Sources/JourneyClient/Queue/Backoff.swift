// The delay after a failure. Randomness is passed in.

import JourneyModel

enum Backoff {
    /// 1, 2, 4 s as in shipped clients, then doubled up to a minute (docs/client.md).
    static let secondsMax = 60
    /// The longest that the server asks for (contract, section 5); a longer value, from a proxy, is cut to this.
    static let retryAfterSecondsMax = 3600
    /// The longest wait. A longer one was computed before the clock was set back.
    static let waitMillisecondsMax = Int64(retryAfterSecondsMax + secondsMax) * 1000

    /// Delay after the `failures`-th failure in a row, counted from 1: 1, 2, 4 ... 60 s or what the server asked
    /// for, whichever is longer, plus up to half of the former at random, so that phones that failed together do
    /// not return together. Never shorter than either.
    static func milliseconds(
        failures: Int, retryAfterSeconds: Int?, using random: inout some RandomNumberGenerator
    ) -> Int64 {
        let doublings = min(max(failures - 1, 0), 6)
        let seconds = min(1 << doublings, secondsMax)
        let asked = min(max(retryAfterSeconds ?? 0, 0), retryAfterSecondsMax)
        return Int64(max(seconds, asked)) * 1000 + Int64.random(in: 0...Int64(seconds) * 500, using: &random)
    }
}
