// The kinds of drives.

package enum Scenario: String, Hashable, Sendable, CaseIterable {
    /// Every event is sent when it happens.
    case happyPath = "happy-path"
    /// The phone has no connection for some time, and later sends the events of that time as a batch.
    case offlineGap = "offline-gap"
    /// The phone's clock is wrong by up to three hours. It is wrong at first and then set correctly, or correct at
    /// first and then set wrongly.
    case clockJump = "clock-jump"
    /// Events are sent several times, one after the other or concurrently.
    case duplicates
    /// Events are sent in any order.
    case shuffledDelivery = "shuffled-delivery"
    /// The app is killed while a session is in progress, and the server enforces the deadlines. If the app reports
    /// events after its restart, they count from the times at which they happened.
    case forceQuit = "force-quit"
    /// A shipped client sends with each event its time in whole seconds and the state before it. Some events are never
    /// sent, but later events prove that they happened. The driver may set a target again during a session.
    case lostEvents = "lost-events"
    /// The visit is verified outside of the merchant zone: at the charger or on the way. The verification happens
    /// before the deadlines, but is often reported after the grace period.
    case verifiedAnywhere = "verified-anywhere"
    /// The app is suspended between two attempts. The second attempt has no `X-Sent-At`, and repeats the `timestamp` of
    /// the first one, which is then minutes old.
    ///
    /// The server must not take this delay for a clock error. Otherwise, it would move the event to a time after a
    /// deadline.
    case staleTimestamp = "stale-timestamp"
    /// The app is killed before it gets the response, and later builds the body again. `timestamp`, `app_state`,
    /// `schema_version` and the notation of `metadata` then differ, and all other members are the same.
    ///
    /// The server must accept this retry. It must reject a body with the same idempotency key but a different time of
    /// the event.
    case rebuiltBody = "rebuilt-body"
    /// The driver cancels before a session begins, and later starts again.
    case earlyEnd = "early-end"
    /// The phone leaves the zone and returns within one second. In some drives, all later events have this same time
    /// too, because times are sent in whole seconds.
    case sameSecond = "same-second"
    /// The driver sets a target again during a session. The next activation then closes that session. Before the
    /// session, the phone may leave the zone while the state is ANCHORED.
    case targetSetAgain = "target-set-again"
    /// A sign-in with Apple is sent again because its response was lost. It requires a signing key that the server
    /// accepts instead of Apple's key. This scenario is not a drive, because it creates and deletes accounts.
    case retriedSignIn = "retried-sign-in"

    /// The scenarios that are drives.
    package static let drives = allCases.filter(\.isDrive)

    package var isDrive: Bool { self != .retriedSignIn }
}
