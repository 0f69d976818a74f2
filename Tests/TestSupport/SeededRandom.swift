// Reproducible random numbers. A test prints its seed when it fails.

/// The SplitMix64 generator (Steele, Lea, Flood 2014). Every seed is suitable, including 0.
package struct SeededRandom: RandomNumberGenerator, Sendable {
    private var state: UInt64

    package init(seed: UInt64) {
        state = seed
    }

    package mutating func next() -> UInt64 {
        state &+= 0x9E37_79B9_7F4A_7C15
        var mixed = state
        mixed = (mixed ^ (mixed >> 30)) &* 0xBF58_476D_1CE4_E5B9
        mixed = (mixed ^ (mixed >> 27)) &* 0x94D0_49BB_1331_11EB
        return mixed ^ (mixed >> 31)
    }

    package mutating func chance(_ one: Int, in many: Int) -> Bool {
        Int.random(in: 0..<many, using: &self) < one
    }
}

extension Array {
    package func randomPick(_ random: inout SeededRandom) -> Element {
        self[Int.random(in: indices, using: &random)]
    }
}
