// The delay after a failure. Randomness is passed in.

import JourneyModel

enum Backoff {
    /// The longest delay without `Retry-After`: 1, 2, 4 s as in shipped clients, then doubled up to a minute
    /// (docs/client.md).
    static let secondsMax = 60
    /// The longest `Retry-After` that the server sends (contract, section 5). A longer value, from a proxy, is cut to
    /// this.
    static let retryAfterSecondsMax = 3600
    /// The longest wait. If more time than this remains, the clock was set back after the wait was computed.
    static let waitMillisecondsMax = Int64(retryAfterSecondsMax + secondsMax) * 1000

    /// Returns the delay after the `failures`-th failure in a row, counted from 1: the longer of 1, 2, 4 ... 60 s and
    /// `retryAfterSeconds`, plus a random part of up to half of the 1, 2, 4 ... 60 s, so that phones that failed
    /// together do not retry together.
    static func milliseconds(
        failures: Int, retryAfterSeconds: Int?, using random: inout some RandomNumberGenerator
    ) -> Int64 {
        let doublings = min(max(failures - 1, 0), 6)
        let seconds = min(1 << doublings, secondsMax)
        let asked = min(max(retryAfterSeconds ?? 0, 0), retryAfterSecondsMax)
        return Int64(max(seconds, asked)) * 1000 + Int64.random(in: 0...Int64(seconds) * 500, using: &random)
    }
}
