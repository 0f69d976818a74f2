/// What happened, in the one canonical form that is stored. `exitedChargerAnchorZone` is two events here,
/// because with and without a session it means two things (contract, section 1).
public enum EventName: Hashable, Sendable {
    case chargerTargeted
    case enteredChargerIntentZone
    case exitedChargerIntentZone
    case anchorDwellComplete
    /// exitedChargerAnchorZone without a session.
    case anchorLost
    case activationRejected
    case exclusiveActivatedByWeb
    /// exitedChargerAnchorZone with a session.
    case departedCharger
    case enteredMerchantZone
    case visitVerifiedByWeb
    case webRequestedEnd
    case gracePeriodExpired
    case hardTimeoutExpired
    case reset
    case sessionRestored
    /// Any other name that matches `[A-Za-z][A-Za-z0-9_]{0,63}`: stored and forwarded, never a transition.
    case diagnostic(String)
}
