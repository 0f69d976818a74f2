// Commands from the driver and the web.

import JourneyModel

extension SessionEngine {
    /// Choosing another charger near one leaves the first one's zone: the table has no other way from one to the
    /// other. From ANCHORED to AT_MERCHANT the choice is reported and changes nothing, as in the fold.
    mutating func target(_ place: Place, at occurredAt: Moment) {
        let isAnother = charger?.id != place.id
        if state == .nearCharger && isAnother { emit(.exitedChargerIntentZone, at: occurredAt) }
        emit(.chargerTargeted, at: occurredAt, charger: place)
        switch state {
        case .idle, .nearCharger, .sessionEnded:
            charger = place
            mayReenter = true
            if isAnother { dwell.reset() }
            put(.requestFix)
        case .anchored, .sessionActive, .inTransit, .atMerchant: break
        }
    }

    /// Only a phone that is anchored, or in another session, activates: otherwise the server would open a session
    /// that this phone does not have. So a rejected activation is reported as `activationRejected`, which needs no
    /// session. A repeat of the activation in progress is ignored.
    mutating func activate(_ sessionID: Identifier, _ merchant: Place, at occurredAt: Moment) {
        if self.sessionID == sessionID.text { return }
        if let reason = refusal(of: .exclusiveActivatedByWeb, sessionID, at: occurredAt) {
            emit(
                .activationRejected, at: occurredAt, metadata: [JSONMember("reason", .string(reason.rawValue))])
            put(.refused(.exclusiveActivatedByWeb, reason))
            return
        }
        self.merchant = merchant
        emit(.exclusiveActivatedByWeb, at: occurredAt, sessionID: sessionID.text)
    }

    /// The table's verdict on the event, without changing the journey.
    private func refusal(of name: EventName, _ sessionID: Identifier, at occurredAt: Moment) -> Verdict.Reason? {
        var journey = journey
        let draft = EventDraft(name: name, sessionID: sessionID.text, occurredAt: occurredAt, sequence: nextSequence)
        return journey.apply(draft.placed(by: settings)).reason
    }

    mutating func activationRejected(_ reason: String, at occurredAt: Moment) {
        let shortened = String(String.UnicodeScalarView(reason.unicodeScalars.prefix(128)))
        emit(.activationRejected, at: occurredAt, metadata: [JSONMember("reason", .string(shortened))])
    }

    /// A command of the web is reported whether or not it moves this phone: it did happen, and the server, which
    /// may know more by then, decides about it at its place in the order.
    mutating func command(_ name: EventName, _ sessionID: Identifier, at occurredAt: Moment) {
        let verdict = emit(name, at: occurredAt, sessionID: sessionID.text)
        if let reason = verdict.reason { put(.refused(name, reason)) }
    }

    mutating func reset(at occurredAt: Moment) {
        guard state == .sessionEnded, let sessionID = endedSessionID ?? journey.sessionID else {
            put(.refused(.reset, .noSuchTransition))
            return
        }
        emit(.reset, at: occurredAt, sessionID: sessionID)
        put(.requestFix)
    }
}
