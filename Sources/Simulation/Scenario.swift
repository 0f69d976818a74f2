// The kinds of drives.

package enum Scenario: String, Hashable, Sendable, CaseIterable {
    /// Every event is sent when it happens.
    case happyPath = "happy-path"
    /// No connection for a while; the events of that time are sent later, as a batch.
    case offlineGap = "offline-gap"
    /// The phone's clock is wrong by up to three hours until it is set, or from then on.
    case clockJump = "clock-jump"
    /// Events sent two or more times, in sequence and at the same moment.
    case duplicates
    /// Events in any order.
    case shuffledDelivery = "shuffled-delivery"
    /// The app is killed with a session in progress: the server keeps the deadlines, and what the phone reports
    /// after its restart counts at its own moment.
    case forceQuit = "force-quit"
    /// As shipped clients send it, in whole seconds and with the state before each event; some events are lost
    /// permanently, and later ones prove them. The target may be set again in a session.
    case lostEvents = "lost-events"
    /// The visit is verified outside the merchant zone: at the charger or on the way. It happens in time, but is often
    /// reported after the grace period.
    case verifiedAnywhere = "verified-anywhere"
    /// The app is suspended between two attempts: the second one's `timestamp` is minutes old, and there is no
    /// `X-Sent-At`. If the server used it, the event would be placed after a deadline.
    case staleTimestamp = "stale-timestamp"
    /// The app is killed before it gets the response, and builds the body again. The server must reject a body with
    /// different content under the same key.
    case rebuiltBody = "rebuilt-body"
    /// The driver cancels before a session begins, and starts again.
    case earlyEnd = "early-end"
    /// The phone leaves the zone and returns within one second, or all events of a queue have the second in which they
    /// are sent.
    case sameSecond = "same-second"
    /// Another target in the middle of a session: the next activation closes that session. Before it, the zone may be
    /// left while anchored.
    case targetSetAgain = "target-set-again"
    /// A sign-in with Apple is sent again because its response is lost. Not a drive: creates and deletes an account.
    /// Requires a key that is used instead of Apple's.
    case retriedSignIn = "retried-sign-in"

    /// The scenarios that are drives.
    package static let drives = allCases.filter(\.isDrive)

    package var isDrive: Bool { self != .retriedSignIn }
}
