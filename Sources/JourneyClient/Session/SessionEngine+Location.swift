// The effects of positions and geofence crossings in each state. LocationFix decides whether a position is inside or
// outside of a circle. DwellDetector decides whether the dwell is complete.

import JourneyModel

extension SessionEngine {
    mutating func take(_ fixes: [LocationFix], at now: Moment) {
        for fix in fixes.sorted(by: { $0.at < $1.at }) { take(fix, at: now) }
    }

    private mutating func take(_ fix: LocationFix, at now: Moment) {
        guard let fix = accepted(fix, at: now) else { return }
        let occurredAt = moment(of: fix.at)
        expireDeadlines(before: occurredAt)
        let previous = lastFix
        lastFix = fix
        noteZone(of: fix)
        if let previous { noticeTeleport(from: previous, to: fix, at: occurredAt) }
        // One fix can cause up to three transitions: from ANCHORED to NEAR_CHARGER, then to IDLE, then to NEAR_CHARGER
        // of `nextCharger`.
        for _ in 0..<4 where !follow(fix, at: occurredAt) { return }
    }

    /// The maximum age of a fix in seconds, for two purposes:
    ///
    /// - A fix is not used if it was taken more than this time before the last event. The phone may have moved since.
    /// - A restored engine requests a new fix if the fix at the restart is older than this.
    static let fixAgeSecondsMax = 60

    /// Returns the fix if it is accurate enough and not too old, and nil otherwise. A fix from the future counts as
    /// taken at `now`.
    ///
    /// After the phone's clock was set back, the last fix or the last event may be later than `now`. The new fix is
    /// accepted even if it is older than that fix or event. If the last fix is later than `now`, the dwell starts over.
    private mutating func accepted(_ fix: LocationFix, at now: Moment) -> LocationFix? {
        guard fix.isUsable(by: settings) else { return nil }
        var fix = fix
        fix.at = min(fix.at, now)
        if let lastFix, fix.at < lastFix.at {
            guard now < lastFix.at else { return nil }
            dwell.reset()
        }
        if let lastEventAt, now >= lastEventAt, fix.at.advanced(bySeconds: Self.fixAgeSecondsMax) < lastEventAt {
            return nil
        }
        return fix
    }

    /// Makes the transition that the fix causes, if any. Returns whether the state changed.
    ///
    /// If `nextCharger` is set in NEAR_CHARGER, the driver chose it in ANCHORED and then lost the anchor. In this case,
    /// the engine reports the exit from the present charger's zone at once. It cannot wait for the real exit:
    /// `nextCharger` may lie in the same zone, so that the phone never leaves it.
    private mutating func follow(_ fix: LocationFix, at occurredAt: Moment) -> Bool {
        switch state {
        case .idle: arrive(isInside(.chargerIntent, fix), at: occurredAt)
        case .sessionEnded: arrive(mayReenter && isInside(.chargerIntent, fix), at: occurredAt)
        case .nearCharger:
            if nextCharger != nil || isOutside(.chargerIntent, fix) {
                move(.exitedChargerIntentZone, at: occurredAt)
            } else {
                stand(fix, at: occurredAt)
            }
        case .anchored: isOutside(.chargerAnchor, fix) && move(.anchorLost, at: occurredAt)
        case .sessionActive:
            isOutside(.chargerAnchor, fix) && move(.departedCharger, at: occurredAt, sessionID: sessionID)
        case .inTransit:
            isInside(.merchant, fix) && move(.enteredMerchantZone, at: occurredAt, sessionID: sessionID)
        case .atMerchant: false
        }
    }

    private mutating func move(_ name: EventName, at occurredAt: Moment, sessionID: String? = nil) -> Bool {
        emit(name, at: occurredAt, sessionID: sessionID).transition == .applied
    }

    private mutating func arrive(_ isInside: Bool, at occurredAt: Moment) -> Bool {
        isInside && move(.enteredChargerIntentZone, at: occurredAt)
    }

    /// Sets `mayReenter` if the fix is outside of the charger's zone, and clears it if the fix is inside. Exception: in
    /// SESSION_ENDED, a fix inside does not clear it, because the fix may be the entry that begins the next journey.
    private mutating func noteZone(of fix: LocationFix) {
        if isOutside(.chargerIntent, fix) {
            mayReenter = true
        } else if state != .sessionEnded, isInside(.chargerIntent, fix) {
            mayReenter = false
        }
    }

    private mutating func stand(_ fix: LocationFix, at occurredAt: Moment) -> Bool {
        guard let charger, dwell.take(fix, at: charger.coordinate, by: settings) else { return false }
        return move(.anchorDwellComplete, at: occurredAt)
    }

    // MARK: Zones

    private func isInside(_ zone: Geofence.Zone, _ fix: LocationFix) -> Bool {
        guard !isOlderThanCrossing(of: zone, fix), let (place, radiusMeters) = circle(of: zone) else { return false }
        return fix.isInside(place.coordinate, radiusMeters: radiusMeters)
    }

    private func isOutside(_ zone: Geofence.Zone, _ fix: LocationFix) -> Bool {
        guard !isOlderThanCrossing(of: zone, fix), let (place, radiusMeters) = circle(of: zone) else { return false }
        return fix.isOutside(place.coordinate, radiusMeters: radiusMeters)
    }

    /// Returns whether the charger's zone was entered or left after the fix was taken. Such a fix must not undo the
    /// crossing, because the operating system reports each crossing only once.
    private func isOlderThanCrossing(of zone: Geofence.Zone, _ fix: LocationFix) -> Bool {
        guard zone == .chargerIntent, let zoneCrossedAt else { return false }
        return fix.at < zoneCrossedAt
    }

    private func circle(of zone: Geofence.Zone) -> (Place, radiusMeters: Double)? {
        switch zone {
        case .chargerIntent: charger.map { ($0, settings.chargerIntentRadiusMeters) }
        case .chargerAnchor: charger.map { ($0, settings.chargerAnchorRadiusMeters) }
        case .merchant: merchant.map { ($0, settings.merchantUnlockRadiusMeters) }
        }
    }

    // MARK: Teleport

    /// During a journey, reports a jump of more than `teleportMeters` between two successive fixes as the diagnostic
    /// event `teleport_detected`.
    ///
    /// A session in progress is ended with webRequestedEnd, because all other ending events claim a passed deadline or
    /// a verified visit. Without a session, the new fix leads to IDLE, because it is outside of all zones.
    ///
    /// Without a session, the fixes are not compared if the charger's zone was crossed after `previous` was taken. A
    /// suspended app gets no fixes on the way to the charger, so `previous` may be from before the journey.
    private mutating func noticeTeleport(from previous: LocationFix, to fix: LocationFix, at occurredAt: Moment) {
        let distanceMeters = previous.coordinate.distanceMeters(to: fix.coordinate)
        guard distanceMeters > Self.teleportMeters, state != .idle, state != .sessionEnded,
            sessionID != nil || !isOlderThanCrossing(of: .chargerIntent, previous)
        else { return }
        let kilometers = JSONMember("distance_km", .number(String(Int(distanceMeters / 1000))))
        emit(.diagnostic("teleport_detected"), at: occurredAt, sessionID: sessionID, metadata: [kilometers])
        guard let sessionID else { return }
        emit(
            .webRequestedEnd, at: occurredAt, sessionID: sessionID,
            metadata: [JSONMember("cause", .string("teleport_detected"))])
    }

    // MARK: Geofences

    /// Treats a geofence crossing like a fix that is clearly inside or outside of the circle.
    ///
    /// Exception: the entry into the anchor zone only requests a fix, because a dwell cannot be detected without a fix.
    ///
    /// The departure also requests a fix. The merchant's zone is monitored only from the departure on, so the operating
    /// system reports no entry if the phone is already in that zone.
    ///
    /// - Parameter reportedAt: the time of the report on the phone's clock. If the clock was set back since the last
    ///   event, `occurredAt` may be later.
    mutating func cross(_ crossing: GeofenceCrossing, at occurredAt: Moment, reportedAt: Moment) {
        guard let (place, _) = circle(of: crossing.zone), place.id == crossing.placeID else { return }
        if crossing.zone == .chargerIntent { zoneCrossedAt = reportedAt }
        switch (crossing.direction, crossing.zone) {
        case (.entered, .chargerIntent):
            if state == .idle || state == .sessionEnded && mayReenter {
                emit(.enteredChargerIntentZone, at: occurredAt)
            } else if state != .sessionEnded {
                mayReenter = false
            }
            put(.requestFix)
        case (.entered, .chargerAnchor):
            dwell.noteEntry(at: reportedAt)
            put(.requestFix)
        case (.entered, .merchant):
            if state == .inTransit { emit(.enteredMerchantZone, at: occurredAt, sessionID: sessionID) }
        case (.exited, .chargerAnchor): leaveAnchor(at: occurredAt)
        case (.exited, .chargerIntent):
            leaveAnchor(at: occurredAt)
            if state == .nearCharger { emit(.exitedChargerIntentZone, at: occurredAt) }
            mayReenter = true
        case (.exited, .merchant): break
        }
    }

    private mutating func leaveAnchor(at occurredAt: Moment) {
        switch state {
        case .nearCharger: dwell.reset()
        case .anchored:
            emit(.anchorLost, at: occurredAt)
            if nextCharger != nil { emit(.exitedChargerIntentZone, at: occurredAt) }
        case .sessionActive:
            emit(.departedCharger, at: occurredAt, sessionID: sessionID)
            put(.requestFix)
        case .idle, .inTransit, .atMerchant, .sessionEnded: break
        }
    }
}
