// One position as the phone's location receiver reports it.

public import JourneyModel

/// A position, its accuracy, and when it was taken.
public struct LocationFix: Hashable, Sendable {
    public var coordinate: Coordinate
    /// The phone is in the circle with this radius around `coordinate`. A fix with a negative radius or NaN is
    /// unusable; platforms mark an invalid fix with a negative radius.
    public var horizontalAccuracyMeters: Double
    /// Nil when unknown.
    public var speedMetersPerSecond: Double?
    /// When the position was taken, not when it was delivered.
    public var at: Moment

    /// - Parameter speedMetersPerSecond: NaN and negative values become nil. Platforms report an unknown speed as a
    ///   negative value.
    public init(
        coordinate: Coordinate, horizontalAccuracyMeters: Double, speedMetersPerSecond: Double? = nil, at: Moment
    ) {
        self.coordinate = coordinate
        self.horizontalAccuracyMeters = horizontalAccuracyMeters
        self.speedMetersPerSecond = speedMetersPerSecond.flatMap { $0 >= 0 ? $0 : nil }
        self.at = at
    }

    /// Returns whether the fix may be used. Its accuracy must be known and not worse than the threshold.
    public func isUsable(by settings: Settings) -> Bool {
        horizontalAccuracyMeters >= 0 && horizontalAccuracyMeters <= settings.locationAccuracyThresholdMeters
    }

    /// Returns whether the phone counts as inside the circle: the reported position lies in the circle or on its edge.
    public func isInside(_ center: Coordinate, radiusMeters: Double) -> Bool {
        coordinate.distanceMeters(to: center) <= radiusMeters
    }

    /// Returns whether the phone counts as outside of the circle. The position's distance from the edge must be larger
    /// than `horizontalAccuracyMeters`.
    ///
    /// A position beyond the edge, but at most `horizontalAccuracyMeters` from it, counts as neither inside nor
    /// outside. Noise at the edge of a zone therefore does not cause repeated entries and exits.
    public func isOutside(_ center: Coordinate, radiusMeters: Double) -> Bool {
        coordinate.distanceMeters(to: center) > radiusMeters + horizontalAccuracyMeters
    }
}
