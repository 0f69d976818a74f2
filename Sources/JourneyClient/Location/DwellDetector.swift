// Detects whether the phone has stayed at the charger for long enough. Takes fixes in the order in which they were
// measured, and stores the times of two of them. Independent of states and events.
//
//     fix                                               effect
//     accuracy worse than the threshold, or invalid     none: it gives no information
//     position inside, slow or of unknown speed         begins or continues the dwell
//     position inside, at or above the speed threshold  ends it: driving through is not a dwell
//     in the band around the circle                     none (LocationFix.isOutside)
//     outside                                           ends it

public import JourneyModel

/// Times one stay inside the anchor radius.
public struct DwellDetector: Hashable, Sendable {
    /// The first and the last fix of the current stay; nil when there is none.
    struct Stay: Hashable {
        var since: Moment
        var last: Moment
    }

    var stay: Stay?

    public init() {}

    /// The longest time between two fixes of one stay, as a multiple of the dwell. A phone at rest reports no fixes,
    /// so the app requests one when the dwell is due (`completesAt`), which continues the stay. A gap of more than
    /// twice the dwell means that the app did not run, and that the phone may have been elsewhere.
    static let silenceInDwells = 2

    /// Takes one fix. Returns true if the fix completes the dwell; the next stay then starts from zero.
    ///
    /// Only a fix completes a dwell, never time alone. This fix must be taken at least `chargerDwellSeconds` after the
    /// first fix of the stay. A fix taken before the last one is ignored.
    public mutating func take(_ fix: LocationFix, at charger: Coordinate, by settings: Settings) -> Bool {
        guard fix.isUsable(by: settings) else { return false }
        let radiusMeters = settings.chargerAnchorRadiusMeters
        guard fix.isInside(charger, radiusMeters: radiusMeters) else {
            if fix.isOutside(charger, radiusMeters: radiusMeters) { stay = nil }
            return false
        }
        if let speed = fix.speedMetersPerSecond, speed >= settings.speedThresholdForDwellMetersPerSecond {
            stay = nil
            return false
        }
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

    /// Returns the time from which a fix inside completes the dwell; nil when there is no stay.
    public func completesAt(by settings: Settings) -> Moment? {
        stay?.since.advanced(bySeconds: settings.chargerDwellSeconds)
    }

    /// Discards the stay.
    public mutating func reset() {
        stay = nil
    }
}
