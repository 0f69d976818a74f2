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
        // of another chosen charger.
        for _ in 0..<4 where !follow(fix, at: occurredAt) { return }
    }

    /// The maximum age of a fix in seconds, for two purposes:
    ///
    /// - A fix that is older than this at the time of the last event is not used, because the phone may have moved.
    /// - If the last fix is older than this when the app restarts, a new fix is requested.
    static let fixAgeSecondsMax = 60

    /// Returns the fix if it may be used, and nil otherwise. A fix from the future counts as taken at `now`. A fix is
    /// rejected in three cases:
    ///
    /// - Its accuracy is not usable.
    /// - It is older than the last fix.
    /// - It is more than `fixAgeSecondsMax` older than the last event.
    ///
    /// After the phone's clock was set back, the last fix or the last event may be later than `now`. The new fix is not
    /// compared with a time later than `now`. If the last fix is later than `now`, the dwell also starts over.
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

    /// Makes the transition that the fix causes in this state, if any. Returns false if the state did not change.
    ///
    /// If `nextCharger` is set in NEAR_CHARGER, the driver chose another charger in ANCHORED, and the anchor was then
    /// lost. The engine reports the exit from the present charger's zone at once, as in `target`.
    ///
    /// Without this report, the phone could not anchor at the other charger if both chargers are in the same zone.
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

    /// Notes in `mayReenter` whether the phone is outside the charger's zone. In SESSION_ENDED, a fix inside the zone
    /// does not change the value. If it is true, `follow` takes this fix as an entry that begins the next journey.
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

    /// Returns whether `zone` is the charger's zone and was entered or left after the fix was taken. The fix must then
    /// not undo the effect of this crossing, because the operating system reports each crossing once. Otherwise the
    /// phone's next arrival might never be noticed.
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

    /// Checks whether two successive fixes are more than `teleportMeters` apart. During a journey, reports such a jump
    /// as the diagnostic event `teleport_detected`.
    ///
    /// If a session is in progress, it is ended with webRequestedEnd. All other events that end a session claim that a
    /// deadline passed or that the visit was verified. Without a session, the new fix leads to IDLE, because it is
    /// outside of all zones.
    ///
    /// Without a session in progress, the two fixes are not compared if `previous` was taken before the last crossing
    /// of the charger's zone. A suspended app gets no fixes on the way to the charger, so `previous` may be from before
    /// the journey.
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

    /// Handles a geofence crossing. Its effect is usually that of a fix that is clearly inside or outside of the
    /// circle.
    ///
    /// The entry into the anchor zone is an exception: this method only requests a fix, because a dwell cannot be
    /// detected without one. The request is repeated until a usable fix shows whether the phone stays there.
    ///
    /// When the phone departs, this method also requests a fix, because the merchant's zone is monitored only from now
    /// on. If the phone is already in that zone, the operating system reports no entry.
    ///
    /// - Parameter reportedAt: the time of the report on the phone's clock. `occurredAt` may be later, if the clock was
    ///   set back since the last event.
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
