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
}
