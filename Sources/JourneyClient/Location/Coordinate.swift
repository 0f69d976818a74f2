// A point on the Earth, and the distance between two points.

import Foundation

/// A point in WGS 84 degrees.
public struct Coordinate: Hashable, Sendable {
    /// -90 to 90.
    public let latitudeDegrees: Double
    /// -180 to 180.
    public let longitudeDegrees: Double

    /// Nil if one of the values is out of range or NaN.
    public init?(latitudeDegrees: Double, longitudeDegrees: Double) {
        guard (-90...90).contains(latitudeDegrees), (-180...180).contains(longitudeDegrees) else { return nil }
        self.latitudeDegrees = latitudeDegrees
        self.longitudeDegrees = longitudeDegrees
    }

    /// The IUGG mean radius. Because the Earth is not a sphere, a distance has an error of up to 0.6 %. At the
    /// distances that matter here, this is far less than the error of a fix.
    static let earthRadiusMeters = 6_371_008.8

    /// Returns the great-circle distance, 0 to about 20,015,115 m. The haversine formula is used because it is precise
    /// even for points that are close together.
    public func distanceMeters(to other: Coordinate) -> Double {
        let (latitude, otherLatitude) = (latitudeDegrees * .pi / 180, other.latitudeDegrees * .pi / 180)
        let halfLatitude = sin((otherLatitude - latitude) / 2)
        let halfLongitude = sin((other.longitudeDegrees - longitudeDegrees) * .pi / 360)
        let haversine =
            halfLatitude * halfLatitude + cos(latitude) * cos(otherLatitude) * halfLongitude * halfLongitude
        // For antipodes, rounding can give a value above 1, for which asin is undefined.
        return 2 * Self.earthRadiusMeters * asin(min(1, haversine.squareRoot()))
    }
}
