import Foundation

/// SplitMix64: the same seed gives the same journey on every machine, so that a failure can be played again.
struct SeededRandom: RandomNumberGenerator {
    private var state: UInt64

    init(seed: UInt64) {
        state = seed
    }

    mutating func next() -> UInt64 {
        state &+= 0x9E37_79B9_7F4A_7C15
        var mixed = state
        mixed = (mixed ^ (mixed >> 30)) &* 0xBF58_476D_1CE4_E5B9
        mixed = (mixed ^ (mixed >> 27)) &* 0x94D0_49BB_1331_11EB
        return mixed ^ (mixed >> 31)
    }

    mutating func chance(_ one: Int, in many: Int) -> Bool {
        Int.random(in: 0..<many, using: &self) < one
    }
}

extension Array {
    func randomPick(_ random: inout SeededRandom) -> Element {
        self[Int.random(in: indices, using: &random)]
    }
}

/// `DWELL_PROPERTY_JOURNEYS` random journeys, 2000 unless it is set, `DWELL_PROPERTY_SEED` the first seed.
enum PropertyRun {
    static let journeys = number("DWELL_PROPERTY_JOURNEYS") ?? 2000
    static let firstSeed = UInt64(number("DWELL_PROPERTY_SEED") ?? 1)
    static var seeds: Range<UInt64> { firstSeed..<(firstSeed + UInt64(journeys)) }

    private static func number(_ variable: String) -> Int? {
        ProcessInfo.processInfo.environment[variable].flatMap { Int($0) }.flatMap { $0 > 0 ? $0 : nil }
    }
}
