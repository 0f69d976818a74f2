// The contract's table of transitions (section 1): the state to which each event leads from each state. Evidence.swift
// handles events of other sessions, and the states that phones report (evidence). Fold.swift handles deadlines and
// targets.

/// The table's entry for one event in one state.
enum Transition: Hashable {
    /// The event first applies the implied steps, and then moves the journey to the given state. Here, only steps that
    /// follow from the event itself are implied. Evidence.swift adds the steps that follow from the phone's reported
    /// state.
    case to(JourneyState, implying: ImpliedSteps = [])
    /// The event never moves the state, and is never rejected.
    case stays
    case rejected(Verdict.Reason)

    init(from state: JourneyState, on name: EventName) {
        self =
            switch (state, name) {
            case (_, .chargerTargeted): .stays
            case (_, .activationRejected), (_, .sessionRestored), (_, .diagnostic): .stays

            case (.idle, .enteredChargerIntentZone): .to(.nearCharger)
            case (.nearCharger, .exitedChargerIntentZone): .to(.idle)
            case (.nearCharger, .anchorDwellComplete): .to(.anchored)
            case (.anchored, .anchorLost): .to(.nearCharger)
            case (.anchored, .exitedChargerIntentZone): .to(.idle, implying: .anchorLost)
            case (.anchored, .exclusiveActivatedByWeb): .to(.sessionActive)
            case (.sessionActive, .departedCharger): .to(.inTransit)
            case (.inTransit, .enteredMerchantZone): .to(.atMerchant)
            case (.inTransit, .gracePeriodExpired): .to(.sessionEnded)
            case (.atMerchant, .visitVerifiedByWeb): .to(.sessionEnded)
            // A verified visit proves that the driver is at the merchant, even if the phone did not report the way
            // there.
            case (.inTransit, .visitVerifiedByWeb): .to(.sessionEnded, implying: .enteredMerchantZone)
            case (.sessionActive, .visitVerifiedByWeb):
                .to(.sessionEnded, implying: [.departedCharger, .enteredMerchantZone])
            case (.sessionActive, .hardTimeoutExpired), (.inTransit, .hardTimeoutExpired),
                (.atMerchant, .hardTimeoutExpired):
                .to(.sessionEnded)
            case (.nearCharger, .webRequestedEnd), (.anchored, .webRequestedEnd), (.sessionActive, .webRequestedEnd),
                (.inTransit, .webRequestedEnd), (.atMerchant, .webRequestedEnd):
                .to(.sessionEnded)
            case (.sessionEnded, .reset): .to(.idle)
            case (.sessionEnded, .enteredChargerIntentZone): .to(.nearCharger, implying: .reset)

            case (.idle, .exclusiveActivatedByWeb), (.nearCharger, .exclusiveActivatedByWeb): .rejected(.notAnchored)
            case (_, .visitVerifiedByWeb): .rejected(.notAtMerchant)
            case (.sessionActive, .enteredMerchantZone): .rejected(.mustDepartFirst)
            // Lists all events instead of using `default`, so that the compiler requires an entry for a new event.
            case (_, .enteredChargerIntentZone), (_, .exitedChargerIntentZone), (_, .anchorDwellComplete),
                (_, .anchorLost), (_, .exclusiveActivatedByWeb), (_, .departedCharger), (_, .enteredMerchantZone),
                (_, .gracePeriodExpired), (_, .hardTimeoutExpired), (_, .webRequestedEnd), (_, .reset):
                .rejected(.noSuchTransition)
            }
    }
}

extension JourneyState {
    /// Whether the state is SESSION_ACTIVE, IN_TRANSIT or AT_MERCHANT.
    package var hasSessionInProgress: Bool {
        switch self {
        case .sessionActive, .inTransit, .atMerchant: true
        case .idle, .nearCharger, .anchored, .sessionEnded: false
        }
    }
}
