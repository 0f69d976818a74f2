// Whether the phone has stayed at the charger for long enough. Takes fixes in the order in which they were taken
// and stores two of their times; knows neither states nor events.
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

    /// How long the receiver may be silent within one stay, in dwells. A phone at rest reports nothing, so the app
    /// requests a fix when the dwell is due (`completesAt`), and that one bridges the silence. A silence of more
    /// than twice the dwell means that the app did not run, and that the phone may have been elsewhere.
    static let silenceInDwells = 2

    /// Takes one fix. Returns true once, when it completes the dwell; the next stay starts from zero.
    ///
    /// Only a fix completes a dwell, never time alone. It must lie at least `chargerDwellSeconds` after the stay's
    /// first one. A fix taken before the last one is ignored.
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

    /// When a fix inside would complete the current stay; nil when there is none.
    public func completesAt(by settings: Settings) -> Moment? {
        stay?.since.advanced(bySeconds: settings.chargerDwellSeconds)
    }

    /// Discards the stay.
    public mutating func reset() {
        stay = nil
    }
}
