// Detects whether the phone has stayed at the charger for long enough. Takes fixes in the order in which they were
// measured. Stores only times, and depends neither on journey states nor on events.
//
//     fix                                               effect
//     accuracy worse than the threshold, or invalid     none: the fix gives no information
//     position inside, slow or of unknown speed         begins or continues the dwell
//     position inside, at or above the speed threshold  ends the dwell: driving through the zone is no dwell
//     neither inside nor outside                        does not change the dwell (LocationFix.isOutside)
//     position outside                                  ends the dwell
//
// A usable fix that is not inside also sets `arrivedAt` to nil, unless the fix is older than the arrival.

public import JourneyModel

/// A measurement of how long the phone stays inside the anchor radius.
public struct DwellDetector: Hashable, Sendable {
    /// The times of the first and the last fix of a stay.
    struct Stay: Hashable {
        var since: Moment
        var last: Moment
    }

    var stay: Stay?
    /// The time when the phone last arrived in the anchor radius: the operating system reported the entry, or a fix was
    /// inside but too fast for a stay. Nil during a stay, and after a fix that is not inside.
    var arrivedAt: Moment?

    public init() {}

    /// How many seconds after `arrivedAt` a fix is requested. The last fix of a parking car is often too fast for a
    /// stay. The parked phone then reports no more fixes by itself.
    static let parkingSeconds = 15

    /// The longest time between two successive fixes of one stay, as a multiple of the dwell time.
    ///
    /// A phone at rest reports no fixes, but the app requests one after the dwell time (`completesAt`). If even that
    /// fix is missing, the app was not running, and the phone may have been elsewhere in the meantime.
    static let silenceInDwells = 2

    /// Takes one fix. Returns true if the fix completes the dwell, which ends the stay.
    ///
    /// Only a fix can complete a dwell. This fix must be taken at least `chargerDwellSeconds` after the stay's first
    /// fix. A fix that is older than the stay's last fix cannot continue the stay.
    public mutating func take(_ fix: LocationFix, at charger: Coordinate, by settings: Settings) -> Bool {
        guard fix.isUsable(by: settings) else { return false }
        let radiusMeters = settings.chargerAnchorRadiusMeters
        guard fix.isInside(charger, radiusMeters: radiusMeters) else {
            if fix.isOutside(charger, radiusMeters: radiusMeters) { stay = nil }
            // A fix from before the arrival does not tell where the phone is now.
            if let arrived = arrivedAt, fix.at >= arrived { arrivedAt = nil }
            return false
        }
        if let speed = fix.speedMetersPerSecond, speed >= settings.speedThresholdForDwellMetersPerSecond {
            stay = nil
            arrivedAt = fix.at
            return false
        }
        arrivedAt = nil
        return continueStay(at: fix.at, dwellSeconds: settings.chargerDwellSeconds)
    }

    private mutating func continueStay(at moment: Moment, dwellSeconds: Int) -> Bool {
        guard let stay, moment <= stay.last.advanced(bySeconds: dwellSeconds * Self.silenceInDwells) else {
            self.stay = Stay(since: moment, last: moment)
            return false
        }
        guard moment >= stay.last else { return false }
        guard moment >= stay.since.advanced(bySeconds: dwellSeconds) else {
            self.stay?.last = moment
            return false
        }
        self.stay = nil
        return true
    }

    /// Returns the earliest time at which a fix inside the anchor radius completes the dwell. Nil if there is no stay.
    public func completesAt(by settings: Settings) -> Moment? {
        stay?.since.advanced(bySeconds: settings.chargerDwellSeconds)
    }

    mutating func noteEntry(at moment: Moment) {
        if stay == nil { arrivedAt = moment }
    }

    /// Starts the detection over if the clock was set back. It was set back if the stay's last fix, or without a stay
    /// the arrival, is more than `parkingSeconds` later than `now`.
    ///
    /// In this case, the phone counts as arrived at `now`, so that a fix is requested soon. With the old times, the
    /// request would wait until the clock reaches them again.
    mutating func noticeClock(at now: Moment) {
        guard let last = stay?.last ?? arrivedAt, last > now.advanced(bySeconds: Self.parkingSeconds) else { return }
        stay = nil
        arrivedAt = now
    }

    /// Returns the time at which a fix should be requested. During a stay, it is the time from which a fix can complete
    /// the dwell. After an arrival without a stay, it is `parkingSeconds` after the arrival.
    ///
    /// Nil if there is neither a stay nor an arrival.
    func fixDueAt(by settings: Settings) -> Moment? {
        completesAt(by: settings) ?? arrivedAt?.advanced(bySeconds: Self.parkingSeconds)
    }

    /// Discards the stay and the arrival.
    public mutating func reset() {
        stay = nil
        arrivedAt = nil
    }
}
