// SplitMix64: the same seed gives the same drive on every machine, so that a failure can be played again.

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
}

/// Answers the same number for ever. With 1 every choice from a range is its least; 0 would be drawn again for ever,
/// since the standard library rejects it for most ranges.
struct ConstantRandom: RandomNumberGenerator {
    var bits: UInt64

    mutating func next() -> UInt64 { bits }
}
