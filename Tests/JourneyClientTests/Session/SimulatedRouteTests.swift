// Tests a whole drive, with fixes as a location receiver reports them each second. The drive has seeded noise and gaps,
// and the app is killed and restarted. Each seed must lead to the same states.

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

    /// Returns the metres east of the charger, and the speed. The phone drives to the charger for 200 s, charges for
    /// 300 s, and then walks to the merchant.
    private static func position(at second: Double) -> (east: Double, speed: Double) {
        switch second {
        case ..<200: (-2000 + second * 10, 10)
        case ..<500: (0, 0)
        case ..<1214: ((second - 500) * 1.4, 1.4)
        default: (1000, 0)
        }
    }

    /// Reports a fix whose noise stays within its accuracy. About one fix in seven is too inaccurate to use, and has
    /// even more noise.
    ///
    /// In the last 19 of every 100 seconds, reports no fix. At 450 s and at 900 s, restarts the app.
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
