// A point on the Earth and how far two of them are apart. Which distances mean something is in the settings.

import Foundation

/// A point in WGS 84 degrees.
public struct Coordinate: Hashable, Sendable {
    /// -90 to 90.
    public let latitudeDegrees: Double
    /// -180 to 180.
    public let longitudeDegrees: Double

    /// Nil for what is not on the Earth, NaN included.
    public init?(latitudeDegrees: Double, longitudeDegrees: Double) {
        guard (-90...90).contains(latitudeDegrees), (-180...180).contains(longitudeDegrees) else { return nil }
        self.latitudeDegrees = latitudeDegrees
        self.longitudeDegrees = longitudeDegrees
    }

    /// IUGG mean radius. The Earth is no sphere, which puts a distance off by at most 0.6 %: far below what a
    /// fix is off by at the distances that count here.
    static let earthRadiusMeters = 6_371_008.8

    /// Along the great circle, by the haversine formula, which keeps its digits for points that lie close.
    /// 0 to about 20 015 115.
    public func distanceMeters(to other: Coordinate) -> Double {
        let (latitude, otherLatitude) = (latitudeDegrees * .pi / 180, other.latitudeDegrees * .pi / 180)
        let halfLatitude = sin((otherLatitude - latitude) / 2)
        let halfLongitude = sin((other.longitudeDegrees - longitudeDegrees) * .pi / 360)
        let haversine =
            halfLatitude * halfLatitude + cos(latitude) * cos(otherLatitude) * halfLongitude * halfLongitude
        // Rounding can carry antipodes past 1, where asin has no value.
        return 2 * Self.earthRadiusMeters * asin(min(1, haversine.squareRoot()))
    }
}
