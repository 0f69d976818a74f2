/// The fold's result for one event at its position in the order. A late event can change the verdicts on the events
/// after it.
public struct Verdict: Hashable, Sendable {
    /// Raw values are the spelling on the wire.
    public enum Transition: String, Hashable, Sendable, CaseIterable {
        /// The event moved the state.
        case applied
        /// The event is not meant to change the state. This is not an error. Examples are a diagnostic event, and the
        /// expiry event of a deadline that a late event has moved or cleared.
        case none
        /// The event is meant to change the state, but must not do so now; `reason` says why. The event is stored, and
        /// the state does not change.
        case rejected
    }

    /// The reason why an event was rejected. The raw values never change, because clients may depend on them.
    public enum Reason: String, Hashable, Sendable, CaseIterable {
        case notAnchored = "not_anchored"
        case notAtMerchant = "not_at_merchant"
        case mustDepartFirst = "must_depart_first"
        case noSuchTransition = "no_such_transition"
        /// An app's event, or the previous state that it reports, claims an activation or a visit. With
        /// `TRUSTED_CONFIRMATIONS=service`, only a service may confirm activations and visits.
        case unconfirmed
    }

    public var transition: Transition
    /// Present exactly when `transition` is `.rejected`.
    public var reason: Reason?
    /// The unreported steps that the event proves (the member `implied` on the wire). Empty unless `transition` is
    /// `.applied`.
    public var implied: ImpliedSteps

    public init(_ transition: Transition, reason: Reason? = nil, implied: ImpliedSteps = []) {
        self.transition = transition
        self.reason = reason
        self.implied = implied
    }

    public static let applied = Verdict(.applied)
    public static let none = Verdict(.none)

    public static func rejected(_ reason: Reason) -> Verdict {
        Verdict(.rejected, reason: reason)
    }
}
