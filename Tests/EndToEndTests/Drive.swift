// A drive, second by second: the phone's position, the fixes of its location receiver, and the state of its network.
// The seed determines the whole drive.

import Foundation
import JourneyClient
import JourneyModel
import TestSupport

/// A trip by car to the charger, five minutes of charging, and a walk to the merchant, a kilometre away.
struct Drive {
    static let charger = place("charger-1", east: 0)
    static let merchant = place("merchant-1", east: 1000)
    static let activatedAt = 400
    static let departsAt = 500
    static let seconds = 1500

    private var random: SeededRandom
    /// The seconds without a network. In some of the other seconds, a response is lost.
    private var outages: [Range<Int>] = []

    init(seed: UInt64) {
        random = SeededRandom(seed: seed)
        for start in stride(from: 100, to: Self.seconds - 100, by: 200) where Bool.random(using: &random) {
            outages.append(start..<(start + Int.random(in: 20...150, using: &random)))
        }
    }

    mutating func network(at second: Int) -> SimulatedPhone.Network {
        // The network is up in the last two minutes, so that all events are sent in the end.
        guard second < Self.seconds - 120 else { return .up }
        if outages.contains(where: { $0.contains(second) }) { return .down }
        return Int.random(in: 0..<10, using: &random) == 0 ? .losesAnswer : .up
    }

    /// Returns the fix of this second, or nil in the last 19 of every 100 seconds. The fix's error is at most its
    /// accuracy. About one fix in seven is too inaccurate to use, and has a larger error.
    mutating func fix(at second: Int, phoneClock: Moment) -> LocationFix? {
        let (east, speed) = Self.position(at: second)
        let isHopeless = Int.random(in: 0..<7, using: &random) == 0
        let accuracy = isHopeless ? 150 : Double.random(in: 4...15, using: &random)
        let noise = Double.random(in: -accuracy...accuracy, using: &random) * (isHopeless ? 5 : 1)
        let heard = max(0, speed + Double.random(in: -0.4...0.4, using: &random))
        guard second % 100 <= 80 else { return nil }
        return LocationFix(
            coordinate: Self.coordinate(east: east + noise), horizontalAccuracyMeters: accuracy,
            speedMetersPerSecond: heard, at: phoneClock)
    }

    private static func position(at second: Int) -> (east: Double, speed: Double) {
        switch second {
        case ..<200: (-2000 + Double(second) * 10, 10)
        case ..<departsAt: (0, 0)
        case ..<1214: (Double(second - departsAt) * 1.4, 1.4)
        default: (1000, 0)
        }
    }

    private static func place(_ id: String, east: Double) -> Place {
        Place(id: identifier(id), coordinate: coordinate(east: east))
    }

    static func identifier(_ text: String) -> Identifier {
        guard let identifier = Identifier(text) else { preconditionFailure("a test's own id") }
        return identifier
    }

    private static func coordinate(east: Double) -> Coordinate {
        let metersPerDegree = 6_371_008.8 * Double.pi / 180
        let longitude = 13.4 + east / (metersPerDegree * cos(52.5 * .pi / 180))
        guard let coordinate = Coordinate(latitudeDegrees: 52.5, longitudeDegrees: longitude) else {
            preconditionFailure("a test's own place")
        }
        return coordinate
    }
}
