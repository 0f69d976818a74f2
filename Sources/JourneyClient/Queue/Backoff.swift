// The delay before the next attempt after a failure. The random number generator is passed in.

import JourneyModel

enum Backoff {
    /// The maximum, in seconds, of the basic delay (see `milliseconds`; docs/client.md). The first three basic delays
    /// are 1, 2 and 4 s, as in shipped clients.
    static let secondsMax = 60
    /// The longest `Retry-After` that the client obeys. The server never sends a longer one (contract, section 5). If a
    /// proxy sends a longer one, the client waits only this long.
    static let retryAfterSecondsMax = 3600
    /// If the phone's clock is set back by more than this during a wait, the wait ends (`EventQueue.mustWait`). If the
    /// clock is set back by a smaller step, the wait becomes longer by that step.
    static let clockStepMillisecondsMax: Int64 = 30_000

    /// Returns the delay in milliseconds after `failures` (at least 1) consecutive failures. The basic delay is 1 s
    /// after the first failure, and doubles with each further failure up to `secondsMax`.
    ///
    /// The result is the longer of the basic delay and `retryAfterSeconds`, plus a random time of up to half of the
    /// basic delay. The random time keeps phones that failed together from retrying together.
    static func milliseconds(
        failures: Int, retryAfterSeconds: Int?, using random: inout some RandomNumberGenerator
    ) -> Int64 {
        let doublings = min(max(failures - 1, 0), 6)
        let seconds = min(1 << doublings, secondsMax)
        let asked = min(max(retryAfterSeconds ?? 0, 0), retryAfterSecondsMax)
        return Int64(max(seconds, asked)) * 1000 + Int64.random(in: 0...Int64(seconds) * 500, using: &random)
    }
}
