// The kinds of drives.

package enum Scenario: String, Hashable, Sendable, CaseIterable {
    /// Every event sent as it happens.
    case happyPath = "happy-path"
    /// No signal for a while; what happened meanwhile is sent later, as a batch.
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
    /// The visit is verified where the phone knows no merchant zone: at the charger or on the way, in time, but often
    /// told after the grace period.
    case verifiedAnywhere = "verified-anywhere"
    /// The app is suspended between two attempts: the second one's `timestamp` is minutes old, and there is no
    /// `X-Sent-At`. Believed, it would put the event behind a deadline.
    case staleTimestamp = "stale-timestamp"
    /// The app is killed before the answer and builds the body again; and the server refuses a body that tells
    /// something else under the same key.
    case rebuiltBody = "rebuilt-body"
    /// The driver gives up before there is a session, and starts again.
    case earlyEnd = "early-end"
    /// Out of the zone and back within one second, or a whole queue stamped with the second in which it is sent.
    case sameSecond = "same-second"
    /// Another target in the middle of a session: the next activation closes that session. Before it, the zone may be
    /// left while anchored.
    case targetSetAgain = "target-set-again"
    /// A sign-in with Apple whose answer is lost and that is sent again. No drive: one account, made and deleted. It
    /// takes a key that stands in for Apple's.
    case retriedSignIn = "retried-sign-in"

    /// What a driver drives.
    package static let drives = allCases.filter(\.isDrive)

    package var isDrive: Bool { self != .retriedSignIn }
}
