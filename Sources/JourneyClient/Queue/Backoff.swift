// The delay before the next attempt after a failure. The random number generator is passed in.

import JourneyModel

enum Backoff {
    /// The longest delay if the response has no `Retry-After`. The first delays are 1, 2 and 4 s, as in shipped
    /// clients. After that, the delay is doubled up to a minute (docs/client.md).
    static let secondsMax = 60
    /// The longest `Retry-After` that the server sends (contract, section 5). Only a proxy can send a longer one. The
    /// client then waits only this long.
    static let retryAfterSecondsMax = 3600
    /// The longest possible wait for the next attempt. If the remaining wait is longer, the phone's clock was set back
    /// in the meantime.
    static let waitMillisecondsMax = Int64(retryAfterSecondsMax + secondsMax) * 1000

    /// Returns the delay in milliseconds after `failures` consecutive failures. `failures` is at least 1. The basic
    /// delay is 1 s after the first failure and doubles with each further failure, up to 60 s. The result is the longer
    /// of the basic delay and `retryAfterSeconds`, plus a random time of up to half of the basic delay. The random time
    /// prevents phones that failed at the same time from retrying at the same time.
    static func milliseconds(
        failures: Int, retryAfterSeconds: Int?, using random: inout some RandomNumberGenerator
    ) -> Int64 {
        let doublings = min(max(failures - 1, 0), 6)
        let seconds = min(1 << doublings, secondsMax)
        let asked = min(max(retryAfterSeconds ?? 0, 0), retryAfterSecondsMax)
        return Int64(max(seconds, asked)) * 1000 + Int64.random(in: 0...Int64(seconds) * 500, using: &random)
    }
}
