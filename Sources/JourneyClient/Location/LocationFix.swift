// One position as the phone's receiver reports it.

public import JourneyModel

/// A position, its accuracy, and when it was taken.
public struct LocationFix: Hashable, Sendable {
    public var coordinate: Coordinate
    /// Radius of the circle that contains the phone. A negative value, by which platforms mark an invalid fix, and
    /// NaN make the fix unusable.
    public var horizontalAccuracyMeters: Double
    /// Nil when unknown.
    public var speedMetersPerSecond: Double?
    /// When the position was taken, not when it was delivered.
    public var at: Moment

    /// - Parameter speedMetersPerSecond: a negative value, by which platforms mark an unknown speed, and NaN become
    ///   nil.
    public init(
        coordinate: Coordinate, horizontalAccuracyMeters: Double, speedMetersPerSecond: Double? = nil, at: Moment
    ) {
        self.coordinate = coordinate
        self.horizontalAccuracyMeters = horizontalAccuracyMeters
        self.speedMetersPerSecond = speedMetersPerSecond.flatMap { $0 >= 0 ? $0 : nil }
        self.at = at
    }

    /// Returns whether the fix may be used: its accuracy is known and not worse than the threshold.
    public func isUsable(by settings: Settings) -> Bool {
        horizontalAccuracyMeters >= 0 && horizontalAccuracyMeters <= settings.locationAccuracyThresholdMeters
    }

    /// Returns whether the phone counts as inside the circle: the reported position lies in the circle, its edge
    /// included.
    public func isInside(_ center: Coordinate, radiusMeters: Double) -> Bool {
        coordinate.distanceMeters(to: center) <= radiusMeters
    }

    /// Returns whether the phone counts as outside: the whole circle of its accuracy lies outside. Fixes between
    /// inside and outside, in a band as wide as `horizontalAccuracyMeters`, change nothing, so that noise at the edge
    /// of a zone does not cause repeated entries and exits.
    public func isOutside(_ center: Coordinate, radiusMeters: Double) -> Bool {
        coordinate.distanceMeters(to: center) > radiusMeters + horizontalAccuracyMeters
    }
}
