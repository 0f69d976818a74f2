// The kinds of drives.

package enum Scenario: String, Hashable, Sendable, CaseIterable {
    /// Every event is sent when it happens.
    case happyPath = "happy-path"
    /// The phone has no connection for a while, and sends the events of that time later as a batch.
    case offlineGap = "offline-gap"
    /// The phone's clock is wrong by up to three hours, until the clock is set correctly or after it is set wrongly.
    case clockJump = "clock-jump"
    /// Events are sent two or more times, in sequence or concurrently.
    case duplicates
    /// Events are sent in any order.
    case shuffledDelivery = "shuffled-delivery"
    /// The app is killed with a session in progress. The server enforces the deadlines, and events reported after the
    /// restart of the app count at the time when they happened.
    case forceQuit = "force-quit"
    /// A shipped client sends whole seconds and the state before each event. Some events are lost permanently, and
    /// later events prove that they happened. The target may be set again in a session.
    case lostEvents = "lost-events"
    /// The visit is verified outside the merchant zone: at the charger or on the way. The verification happens in time,
    /// but is often reported after the grace period.
    case verifiedAnywhere = "verified-anywhere"
    /// The app is suspended between two attempts. The `timestamp` of the second attempt is minutes old, and there is no
    /// `X-Sent-At`. If the server corrected times by that `timestamp`, the event would be placed after a deadline.
    case staleTimestamp = "stale-timestamp"
    /// The app is killed before it gets the response, and builds the body again. The server must reject a body with
    /// different content under the same key.
    case rebuiltBody = "rebuilt-body"
    /// The driver cancels before a session begins, and starts again.
    case earlyEnd = "early-end"
    /// The phone leaves the zone and returns within one second, or all events of a queue have the same time in whole
    /// seconds.
    case sameSecond = "same-second"
    /// The driver sets another target during a session, and the next activation closes that session. Before the
    /// session, the phone may leave the zone while anchored.
    case targetSetAgain = "target-set-again"
    /// A sign-in with Apple is sent again because its response is lost. This scenario is no drive: it creates and
    /// deletes accounts. It requires a signing key that the server accepts in place of Apple's.
    case retriedSignIn = "retried-sign-in"

    /// The scenarios that are drives.
    package static let drives = allCases.filter(\.isDrive)

    package var isDrive: Bool { self != .retriedSignIn }
}
