// Tests distances and coordinates. Distances must agree with lengths that follow from the radius of the Earth. Invalid
// coordinates must be rejected.

import JourneyClient
import Testing

struct CoordinateTests {
    @Test("a degree along a meridian is 111 195 m, at the equator and at the pole")
    func degreeOfLatitude() throws {
        for latitude in [0.0, 45, 89, -90] {
            let south = try #require(Coordinate(latitudeDegrees: latitude, longitudeDegrees: 7))
            let north = try #require(Coordinate(latitudeDegrees: latitude + 1, longitudeDegrees: 7))
            #expect(abs(south.distanceMeters(to: north) - 111_195.08) < 0.01)
        }
    }

    @Test("a degree along the parallel of 60 is half of one along the equator")
    func degreeOfLongitude() throws {
        let west = try #require(Coordinate(latitudeDegrees: 60, longitudeDegrees: 10))
        let east = try #require(Coordinate(latitudeDegrees: 60, longitudeDegrees: 11))
        #expect(abs(west.distanceMeters(to: east) - 55_597.5) < 5)
    }

    @Test("the date line is no obstacle, and antipodes are half the way around")
    func aroundTheEarth() throws {
        let west = try #require(Coordinate(latitudeDegrees: 0, longitudeDegrees: 179.5))
        let east = try #require(Coordinate(latitudeDegrees: 0, longitudeDegrees: -179.5))
        #expect(abs(west.distanceMeters(to: east) - 111_195.08) < 0.01)
        let here = try #require(Coordinate(latitudeDegrees: 37.1, longitudeDegrees: 12.3))
        let antipode = try #require(Coordinate(latitudeDegrees: -37.1, longitudeDegrees: -167.7))
        #expect(abs(here.distanceMeters(to: antipode) - 20_015_114.4) < 1)
        #expect(here.distanceMeters(to: here) == 0)
    }

    @Test("what is not on the Earth is no coordinate", arguments: [(91.0, 0.0), (0, 180.1), (.nan, 0), (0, .infinity)])
    func invalid(latitude: Double, longitude: Double) {
        #expect(Coordinate(latitudeDegrees: latitude, longitudeDegrees: longitude) == nil)
    }

    @Test("an identifier has 1 to 128 characters and no control characters")
    func identifiers() {
        #expect(Identifier("") == nil)
        #expect(Identifier(String(repeating: "é", count: 128)) != nil)
        #expect(Identifier(String(repeating: "é", count: 129)) == nil)
        #expect(Identifier("a\u{0}b") == nil)
        #expect(Identifier("a\u{85}b") == nil)
        #expect(Identifier("s-1 a")?.text == "s-1 a")
    }
}
