// The kinds of drives.

package enum Scenario: String, Hashable, Sendable, CaseIterable {
    /// Every event is sent when it happens.
    case happyPath = "happy-path"
    /// The phone has no connection for some time. Later it sends the events of that time as a batch.
    case offlineGap = "offline-gap"
    /// The phone's clock is wrong by up to three hours, either before the activation or from the activation on.
    case clockJump = "clock-jump"
    /// Events are sent several times, one after the other or concurrently.
    case duplicates
    /// Events are sent in any order.
    case shuffledDelivery = "shuffled-delivery"
    /// The app is killed during a session, and the server enforces the deadlines. In some drives, the app restarts
    /// later and reports the events since it was killed. They have their effect at the times at which they happened.
    case forceQuit = "force-quit"
    /// A shipped client sends each event with its time in whole seconds and the state before it. Some events are never
    /// sent, but later events prove them. The driver may set a target again during a session.
    case lostEvents = "lost-events"
    /// The visit is verified at the charger or on the way, outside of the merchant zone. The verification happens
    /// before the deadlines, but is often reported after the grace period.
    case verifiedAnywhere = "verified-anywhere"
    /// The app is suspended between two attempts. The second attempt has no `X-Sent-At`. It repeats the `timestamp` of
    /// the first attempt, which is minutes old.
    ///
    /// The server must not treat the age of `timestamp` as a clock error. If it did, it would move the event to a time
    /// after a deadline.
    case staleTimestamp = "stale-timestamp"
    /// The app is killed before it gets the response, and later builds the body again. `timestamp`, `app_state`,
    /// `schema_version` and the notation of `metadata` then differ. All other members are the same.
    ///
    /// The server must accept the rebuilt body. It must reject a body with the same idempotency key and another time of
    /// the event.
    case rebuiltBody = "rebuilt-body"
    /// The driver cancels before a session begins, and starts again later.
    case earlyEnd = "early-end"
    /// The phone leaves the zone and returns within one second. Times are sent in whole seconds, so both events have
    /// the same time. In some drives, all later events also have this time.
    case sameSecond = "same-second"
    /// The driver sets a target again during a session. Another activation then closes the session. In some drives, the
    /// phone leaves the zone before the session, while the state is ANCHORED.
    case targetSetAgain = "target-set-again"
    /// A sign-in with Apple is repeated as if its response had been lost. The server must accept the simulation's
    /// signing key. This scenario is not a drive, because it creates and deletes accounts.
    case retriedSignIn = "retried-sign-in"

    /// The scenarios that are drives.
    package static let drives = allCases.filter(\.isDrive)

    package var isDrive: Bool { self != .retriedSignIn }
}
