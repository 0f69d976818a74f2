// A town for the tests: chargers and a merchant. Positions are in metres east and north of the charger `c1`.

import Foundation
import JourneyClient
import JourneyModel

extension Moment {
    static func at(_ seconds: Double) -> Moment {
        Moment(millisecondsSinceEpoch: 1_795_000_000_000 + Int64((seconds * 1000).rounded()))
    }
}

enum Town {
    static let charger = place("c1", east: 0)
    static let otherCharger = place("c2", east: 5000)
    static let merchant = place("m1", east: 1000)

    static func place(_ id: String, east: Double) -> Place {
        Place(id: identifier(id), coordinate: coordinate(east: east))
    }

    /// Returns the operating system's report that the phone has crossed the edge of a zone.
    static func crossing(
        _ direction: GeofenceCrossing.Direction, _ zone: Geofence.Zone, of place: Place = charger
    ) -> EngineInput {
        .crossed(GeofenceCrossing(direction, zone, of: place.id))
    }

    static func identifier(_ text: String) -> Identifier {
        guard let identifier = Identifier(text) else { preconditionFailure("a test's own id") }
        return identifier
    }

    static func coordinate(east: Double, north: Double = 0) -> Coordinate {
        let latitude = 52.5
        let metersPerDegree = 6_371_008.8 * Double.pi / 180
        guard
            let coordinate = Coordinate(
                latitudeDegrees: latitude + north / metersPerDegree,
                longitudeDegrees: 13.4 + east / (metersPerDegree * cos(latitude * .pi / 180)))
        else { preconditionFailure("a test's own place") }
        return coordinate
    }

    static func fix(
        east: Double, north: Double = 0, accuracy: Double = 5, speed: Double? = 0, at seconds: Double
    ) -> LocationFix {
        LocationFix(
            coordinate: coordinate(east: east, north: north), horizontalAccuracyMeters: accuracy,
            speedMetersPerSecond: speed, at: .at(seconds))
    }
}
