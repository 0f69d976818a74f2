// Handles commands from the driver and the web.

import JourneyModel

extension SessionEngine {
    /// Targets a charger. No transition leads from one charger to another. If the driver chooses another charger in
    /// NEAR_CHARGER, the engine therefore first reports the exit from the present charger's zone.
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

    /// Activates a session. A repeated activation of the session in progress is ignored. An activation is rejected if
    /// its session has ended, or if the state is not ANCHORED and no session is in progress.
    ///
    /// If another session is in progress, the phone's position is uncertain, so the activation requests a fix. If the
    /// phone departed during that session, the driver is now at a charger again. This is `nextCharger` if it is set,
    /// and otherwise `charger`.
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
            // The drive to this charger may have been long, and a suspended app gets no fixes on the way. Without this
            // line, the distance from the last fix could look like a teleport and end the new session.
            lastFix = nil
        }
        if self.sessionID != nil { put(.requestFix) }
        self.merchant = merchant
        emit(.exclusiveActivatedByWeb, at: occurredAt, sessionID: sessionID.text)
    }

    /// Returns the reason for which the journey would reject the event. Nil if the event would not be rejected. Does
    /// not change the journey.
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

    /// Uses new settings. If they change the size of a zone, the phone may already be on the other side of the new
    /// edge. The operating system then reports no crossing, so this method requests a fix.
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
