// Handles commands from the driver and the web.

import JourneyModel

extension SessionEngine {
    /// Handles the driver's choice of a charger. No transition leads from one charger to another. If the driver chooses
    /// another charger in NEAR_CHARGER, the engine therefore first reports the exit from the present charger's zone.
    ///
    /// In the states from ANCHORED to AT_MERCHANT, the choice is reported but does not change the target. The fold has
    /// the same rule. The engine keeps the choice in `nextCharger`.
    mutating func target(_ place: Place, at occurredAt: Moment) {
        let changesTarget = charger?.id != place.id
        if state == .nearCharger && changesTarget { emit(.exitedChargerIntentZone, at: occurredAt) }
        emit(.chargerTargeted, at: occurredAt, charger: place)
        switch state {
        case .idle, .nearCharger, .sessionEnded:
            charger = place
            nextCharger = nil
            if state == .sessionEnded { mayReenter = true }
            if changesTarget {
                dwell.reset()
                zoneCrossedAt = nil
            }
            put(.requestFix)
        case .anchored, .sessionActive, .inTransit, .atMerchant: nextCharger = changesTarget ? place : nil
        }
    }

    /// Activates a session. Ignores a repeated activation of the session in progress. The rules of the fold decide
    /// whether the activation is rejected (`refusal`).
    ///
    /// If another session is in progress, the phone's position is uncertain, so a fix is requested. If the phone
    /// departed during that session, the driver must now be at a charger again. This charger is `nextCharger` if it is
    /// set, or else `charger`.
    ///
    /// Instead of a rejected activation, the engine sends `activationRejected` without a session id. If it sent the
    /// activation, the server might open a session that this phone does not have.
    mutating func activate(_ sessionID: Identifier, _ merchant: Place, at occurredAt: Moment) {
        if self.sessionID == sessionID.text { return }
        if let reason = refusal(of: .exclusiveActivatedByWeb, sessionID, at: occurredAt) {
            emit(
                .activationRejected, at: occurredAt, metadata: [JSONMember("reason", .string(reason.rawValue))])
            put(.refused(.exclusiveActivatedByWeb, reason))
            return
        }
        if state == .inTransit || state == .atMerchant {
            adoptNextCharger()
            // A suspended app gets no fixes on the way to this charger. Without this line, a long drive since the last
            // fix could look like a teleport and end the new session.
            lastFix = nil
        }
        if self.sessionID != nil { put(.requestFix) }
        self.merchant = merchant
        emit(.exclusiveActivatedByWeb, at: occurredAt, sessionID: sessionID.text)
    }

    /// Returns the reason why the fold would reject the event, or nil if it would not.
    private func refusal(of name: EventName, _ sessionID: Identifier, at occurredAt: Moment) -> Verdict.Reason? {
        var journey = journey
        let draft = EventDraft(name: name, sessionID: sessionID.text, occurredAt: occurredAt, sequence: nextSequence)
        return journey.apply(draft.placed(by: settings)).reason
    }

    mutating func activationRejected(_ reason: String, at occurredAt: Moment) {
        let shortened = String(String.UnicodeScalarView(reason.unicodeScalars.prefix(128)))
        emit(.activationRejected, at: occurredAt, metadata: [JSONMember("reason", .string(shortened))])
    }

    /// Sends a command of the web to the server even if the command changes nothing on this phone. Only the server can
    /// decide the command's effect, because it may have events that this phone lacks.
    mutating func command(_ name: EventName, _ sessionID: Identifier, at occurredAt: Moment) {
        let verdict = emit(name, at: occurredAt, sessionID: sessionID.text)
        if let reason = verdict.reason { put(.refused(name, reason)) }
    }

    /// Replaces the settings. A new size of a zone can put the phone on the other side of the zone's edge. The
    /// operating system then reports no crossing, so this method requests a fix.
    mutating func use(_ newSettings: Settings) {
        let changesZone =
            settings.chargerIntentRadiusMeters != newSettings.chargerIntentRadiusMeters
            || settings.chargerAnchorRadiusMeters != newSettings.chargerAnchorRadiusMeters
            || settings.merchantUnlockRadiusMeters != newSettings.merchantUnlockRadiusMeters
        settings = newSettings
        if changesZone, charger != nil { put(.requestFix) }
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
