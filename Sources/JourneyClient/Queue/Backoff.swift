// The delay before the next attempt after a failure. The random number generator is passed in.

import JourneyModel

enum Backoff {
    /// The maximum of the basic delay, in seconds. The basic delay is the delay without the random time and without
    /// `Retry-After`. It is 1, 2 and 4 s after the first three failures, as in shipped clients. Then it doubles with
    /// each failure, up to this maximum (docs/client.md).
    static let secondsMax = 60
    /// The longest `Retry-After` that the client obeys. The server never sends a longer one (contract, section 5). If a
    /// proxy sends a longer one, the client waits only this long.
    static let retryAfterSecondsMax = 3600
    /// If the phone's clock is set back by more than this during a wait, the wait ends (`EventQueue.mustWait`). If the
    /// clock is set back by less, for example by a small adjustment, the wait becomes longer by the same time.
    static let clockStepMillisecondsMax: Int64 = 30_000

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
