// A point on the Earth, and the distance between two points. The radii to compare distances with are in the settings.

import Foundation

/// A point in WGS 84 degrees.
public struct Coordinate: Hashable, Sendable {
    /// -90 to 90.
    public let latitudeDegrees: Double
    /// -180 to 180.
    public let longitudeDegrees: Double

    /// Nil for values that are not on the Earth, NaN included.
    public init?(latitudeDegrees: Double, longitudeDegrees: Double) {
        guard (-90...90).contains(latitudeDegrees), (-180...180).contains(longitudeDegrees) else { return nil }
        self.latitudeDegrees = latitudeDegrees
        self.longitudeDegrees = longitudeDegrees
    }

    /// IUGG mean radius. The Earth is not a sphere, which makes a distance wrong by at most 0.6 %: far below the
    /// error of a fix at the distances that count here.
    static let earthRadiusMeters = 6_371_008.8

    /// Returns the great-circle distance by the haversine formula, which stays precise for points close together: 0 to
    /// about 20,015,115 m.
    public func distanceMeters(to other: Coordinate) -> Double {
        let (latitude, otherLatitude) = (latitudeDegrees * .pi / 180, other.latitudeDegrees * .pi / 180)
        let halfLatitude = sin((otherLatitude - latitude) / 2)
        let halfLongitude = sin((other.longitudeDegrees - longitudeDegrees) * .pi / 360)
        let haversine =
            halfLatitude * halfLatitude + cos(latitude) * cos(otherLatitude) * halfLongitude * halfLongitude
        // Rounding can put antipodes past 1, where asin is undefined.
        return 2 * Self.earthRadiusMeters * asin(min(1, haversine.squareRoot()))
    }
}
