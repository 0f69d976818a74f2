// Handles commands from the driver and the web.

import JourneyModel

extension SessionEngine {
    /// Targets a charger. If another charger is chosen in NEAR_CHARGER, the engine first reports that the phone left
    /// the zone of the present charger, because the table of transitions has no transition from one charger to another.
    ///
    /// In the states from ANCHORED to AT_MERCHANT, the choice is reported but does not change the target. The fold has
    /// the same rule. The engine keeps the choice (`nextCharger`) until the anchor is lost or the journey ends.
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

    /// Activates a session. The state must be ANCHORED, or another session must be in progress. Otherwise the
    /// activation is rejected. The activation of a session that has ended is rejected too. A repeated activation of the
    /// session in progress is ignored.
    ///
    /// If another session is in progress, the activation requests a fix, because the phone's position is uncertain. If
    /// the phone has departed, the activation shows that the driver is at a charger again: at the charger that was
    /// targeted in the meantime or, if none was targeted, at `charger`. If the phone has not departed, it is assumed to
    /// be still at `charger`.
    ///
    /// A rejected activation is not reported to the server, because the server might then open a session that this
    /// phone does not have. The phone reports `activationRejected` instead, which belongs to no session.
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
            // The drive to this charger may have been long, and a suspended app gets no fixes on the way. If a fix here
            // were compared with a fix from before the drive, the distance would look like a teleport and end the new
            // session.
            lastFix = nil
        }
        if self.sessionID != nil { put(.requestFix) }
        self.merchant = merchant
        emit(.exclusiveActivatedByWeb, at: occurredAt, sessionID: sessionID.text)
    }

    /// Returns the reason why the journey would reject the event, or nil if the journey would not reject it. Does not
    /// change the journey.
    private func refusal(of name: EventName, _ sessionID: Identifier, at occurredAt: Moment) -> Verdict.Reason? {
        var journey = journey
        let draft = EventDraft(name: name, sessionID: sessionID.text, occurredAt: occurredAt, sequence: nextSequence)
        return journey.apply(draft.placed(by: settings)).reason
    }

    mutating func activationRejected(_ reason: String, at occurredAt: Moment) {
        let shortened = String(String.UnicodeScalarView(reason.unicodeScalars.prefix(128)))
        emit(.activationRejected, at: occurredAt, metadata: [JSONMember("reason", .string(shortened))])
    }

    /// Reports a command of the web, even if it does not change the state on this phone. The server may have events
    /// that this phone lacks, so only the server can decide the effect of the command.
    mutating func command(_ name: EventName, _ sessionID: Identifier, at occurredAt: Moment) {
        let verdict = emit(name, at: occurredAt, sessionID: sessionID.text)
        if let reason = verdict.reason { put(.refused(name, reason)) }
    }

    /// Uses new settings. If they change the size of a zone, requests a fix. The phone may already be on the other side
    /// of the new edge, and the operating system then reports no crossing.
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
