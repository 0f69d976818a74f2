// Tests a whole drive as a location receiver reports it, second by second. The drive has seeded noise, gaps, and an app
// that is killed and restarted. Every drive ends in the same state.

import Foundation
import JourneyClient
import JourneyModel
import TestSupport
import Testing

struct SimulatedRouteTests {
    private static let way: [JourneyState] = [
        .nearCharger, .anchored, .sessionActive, .inTransit, .atMerchant, .sessionEnded,
    ]

    @Test("arrive, charge, walk over, be verified: every step once, in order", arguments: 1...40)
    func wholeDay(seed: UInt64) throws {
        var random = SeededRandom(seed: seed)
        var phone = Phone()
        phone.take(.targeted(Town.charger), at: 0)
        for second in stride(from: 0.0, through: 1500, by: 1) {
            try report(Self.position(at: second), at: second, to: &phone, &random)
            if second == 400 {
                phone.take(.activated(sessionID: Town.identifier("s1"), merchant: Town.merchant), at: second)
            }
        }
        phone.take(.visitVerified(sessionID: Town.identifier("s1")), at: 1501)
        #expect(phone.transitions.map(\.to) == Self.way, "seed \(seed)")
        let arrival = try #require(phone.transitions.first { $0.to == .atMerchant }).at
        let seconds = Double(arrival.milliseconds(since: .at(0))) / 1000
        #expect((1150...1300).contains(seconds), "seed \(seed): at the merchant after \(seconds) s")
    }

    /// Returns the position in metres east of the charger, and the speed. The phone travels to the charger by car for
    /// 200 s, charges for 300 s, and then moves on foot to the merchant.
    private static func position(at second: Double) -> (east: Double, speed: Double) {
        switch second {
        case ..<200: (-2000 + second * 10, 10)
        case ..<500: (0, 0)
        case ..<1214: ((second - 500) * 1.4, 1.4)
        default: (1000, 0)
        }
    }

    /// Reports a fix with noise up to the fix's accuracy. About one fix in seven has more noise and is too inaccurate
    /// to use.
    ///
    /// Reports no fix in the last 19 seconds of every 100. Restarts the app at 450 s and at 900 s.
    private func report(
        _ position: (east: Double, speed: Double), at second: Double, to phone: inout Phone,
        _ random: inout SeededRandom
    ) throws {
        if second == 450 || second == 900 { try phone.restart(at: second) }
        if Int(second) % 100 > 80 { return }
        let isHopeless = Int.random(in: 0..<7, using: &random) == 0
        let accuracy = isHopeless ? 150 : Double.random(in: 4...15, using: &random)
        let noise = Double.random(in: -accuracy...accuracy, using: &random) * (isHopeless ? 5 : 1)
        phone.fix(
            east: position.east + noise, accuracy: accuracy,
            speed: max(0, position.speed + Double.random(in: -0.4...0.4, using: &random)), at: second)
    }
}
