// Detects whether the phone has stayed at the charger for long enough. The detector takes fixes in the order in which
// they were measured. It stores only times: the times of the first and the last fix of a stay or, if no stay has begun,
// the time of the arrival. It depends neither on journey states nor on events.
//
//     fix                                               effect
//     accuracy worse than the threshold, or invalid     none: the fix gives no information
//     position inside, slow or of unknown speed         begins or continues the dwell
//     position inside, at or above the speed threshold  ends the dwell: driving through the zone is no dwell
//     neither inside nor outside                        none on a dwell (LocationFix.isOutside)
//     position outside                                  ends the dwell
//
// A usable fix that is not inside and was not taken before the arrival also ends the arrival (`arrivedAt` becomes nil).

public import JourneyModel

/// A measurement of how long the phone stays inside the anchor radius.
public struct DwellDetector: Hashable, Sendable {
    /// The times of the first and the last fix of a stay.
    struct Stay: Hashable {
        var since: Moment
        var last: Moment
    }

    var stay: Stay?
    /// The time of the last arrival in the anchor radius, if no stay has begun. An arrival is a fix inside whose speed
    /// is too high for a stay, or an entry that the operating system reported. Nil after a fix that is not inside.
    var arrivedAt: Moment?

    public init() {}

    /// How long after `arrivedAt` a fix is requested, in seconds. While a car is being parked, the speed of the last
    /// fix is often too high for a stay, and the parked phone then reports no further fixes by itself.
    static let parkingSeconds = 15

    /// The longest time between two successive fixes of one stay, as a multiple of the dwell time. A phone at rest
    /// reports no fixes. The app therefore requests a fix when the stay has lasted for the dwell time (`completesAt`),
    /// and that fix continues the stay. If there was no fix for more than twice the dwell time, the app was not
    /// running, and the phone may have been elsewhere.
    static let silenceInDwells = 2

    /// Takes one fix. Returns true if the fix completes the dwell. After that, a new stay begins with the next fix.
    ///
    /// Time alone never completes a dwell; a fix is needed. The fix must be taken at least `chargerDwellSeconds` after
    /// the first fix of the stay. A fix that would continue the stay is ignored if it was taken before the last fix of
    /// the stay.
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

    /// Notes that the operating system reported the entry into the anchor zone.
    mutating func noteEntry(at moment: Moment) {
        if stay == nil { arrivedAt = moment }
    }

    /// Starts over at `now` if the last fix of the stay, or the arrival, is later than `now` by more than
    /// `parkingSeconds`. The clock was then set back, and the next fix would be requested only after the clock has
    /// reached the old time again. The phone counts as just arrived, so a fix is requested soon.
    mutating func noticeClock(at now: Moment) {
        guard let last = stay?.last ?? arrivedAt, last > now.advanced(bySeconds: Self.parkingSeconds) else { return }
        stay = nil
        arrivedAt = now
    }

    /// Returns the time at which a fix should be requested: when a fix completes the dwell, or, if no stay has begun,
    /// `parkingSeconds` after the arrival. Nil if the phone is not known to be inside.
    func fixDueAt(by settings: Settings) -> Moment? {
        completesAt(by: settings) ?? arrivedAt?.advanced(bySeconds: Self.parkingSeconds)
    }

    /// Discards the stay and the arrival.
    public mutating func reset() {
        stay = nil
        arrivedAt = nil
    }
}
