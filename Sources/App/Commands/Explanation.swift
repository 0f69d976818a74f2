// Values that both output formats of `dwell explain` (text and JSON) derive from a recorded event. The verdict is the
// stored verdict. It is not computed again.

import Engine
import JourneyModel

/// The effect of an event on a deadline.
struct DeadlineChange: Hashable {
    enum Kind: String {
        case started
        case cleared
        /// The deadline passed and ended the session.
        case passed
        /// The session ended for a reason other than this deadline.
        case ended
    }

    /// The name of the deadline: `grace period` or `hard timeout`.
    var deadline: String
    var kind: Kind
    var at: Moment
}

extension RecordedEvent {
    /// The milliseconds that were added to `occurred_at` to correct it to the server's clock.
    var correctionMilliseconds: Int64 { times.corrected.milliseconds(since: times.occurredAt) }

    var deadlineChanges: [DeadlineChange] {
        change(of: "grace period", from: before.graceDeadline, to: after.graceDeadline)
            + change(of: "hard timeout", from: before.hardDeadline, to: after.hardDeadline)
    }

    private func change(of deadline: String, from old: Moment?, to new: Moment?) -> [DeadlineChange] {
        guard old != new else { return [] }
        let hasPassed = origin == .server && old == times.corrected
        let kind: DeadlineChange.Kind = after.state != .sessionEnded ? .cleared : hasPassed ? .passed : .ended
        return [
            old.map { DeadlineChange(deadline: deadline, kind: kind, at: $0) },
            new.map { DeadlineChange(deadline: deadline, kind: .started, at: $0) },
        ].compactMap(\.self)
    }

    /// The reason why the event did not change the state. Nil if the event changed the state, or never changes the
    /// state, like a diagnostic event.
    ///
    /// Exception: for an event below the driver's floor, this property is never nil. Retention has deleted the events
    /// before the floor, so if the verdict has no reason, the text says that the fold starts after the event.
    var why: String? {
        if isBelowFloor, verdict.reason == nil {
            return "earlier events were deleted (EVENT_RETENTION_DAYS), and the fold starts after it"
        }
        switch verdict.reason {
        case .notAnchored:
            return "a session can be activated only in ANCHORED"
        case .notAtMerchant: return "a visit can be verified only in a session"
        case .mustDepartFirst: return "the driver has not departed from the charger"
        case .noSuchTransition:
            if let running = sessionInProgress, let sessionID, !running.utf8.elementsEqual(sessionID.utf8) {
                return "session \(running) is in progress"
            }
            if let sessionID, before.isOver(sessionID), name == .exclusiveActivatedByWeb || name == .webRequestedEnd {
                return "session \(sessionID) has ended"
            }
            return "no transition from \(before.state.rawValue) for this event"
        case .unconfirmed: return "only a service confirms it (TRUSTED_CONFIRMATIONS=service when it was stored)"
        case nil:
            let isStale = origin == .server && verdict.transition == .none
            return isStale ? "a late event moved or cleared this deadline" : nil
        }
    }

    /// The implied steps and the evidence for them; nil if there are no implied steps. An implied step is a transition
    /// whose own event is missing.
    var whyImplied: String? {
        guard !verdict.implied.isEmpty else { return nil }
        let steps = verdict.implied.names.joined(separator: ", ")
        let evidence = previousState.flatMap { $0 == before.state ? nil : $0 }
        // A verified visit proves that the driver was at the merchant. It therefore proves all steps up to AT_MERCHANT.
        let isAtMerchant = (previousState ?? before.state) == .atMerchant
        let reasons = [
            evidence.map { "the phone was in \($0.rawValue)" },
            name == .visitVerifiedByWeb && !isAtMerchant ? "the merchant has seen the driver" : nil,
        ].compactMap(\.self)
        return "\(steps): " + (reasons.isEmpty ? "the event proves it" : reasons.joined(separator: ", and "))
    }

    /// The session that ended because this event began another journey; nil if there is no such session.
    var closedSession: (id: String, ending: Journey.Ending)? {
        guard let id = before.sessionID, let ending = before.closing(by: after) else { return nil }
        return (id, ending)
    }

    private var sessionInProgress: String? {
        switch before.state {
        case .sessionActive, .inTransit, .atMerchant: before.sessionID
        case .idle, .nearCharger, .anchored, .sessionEnded: nil
        }
    }
}

extension ClockRule {
    /// The rule that determined the event's corrected time, as text for the operator.
    var explanation: String {
        switch self {
        case .noSendTime: "send time unknown, so occurred_at is not corrected"
        case .rightClock: "clock accurate within five minutes, so occurred_at is not corrected"
        case .sentAt: "skew taken from X-Sent-At"
        case .knownCorrection: "same skew as this driver's clock before"
        case .firstEvents: "skew taken from timestamp, and this driver's clock was unknown"
        case .recentEventsAgree: "skew taken from timestamp, and recent events of this driver agree"
        case .loneTimestamp:
            "skew in this timestamp only: treated as an earlier attempt's, so the known skew applies"
        case .aheadOfReceipt: "more than five minutes ahead of receipt, so the receipt time applies"
        }
    }
}
