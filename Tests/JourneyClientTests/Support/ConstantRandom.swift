/// Answers the same number for ever. With 1 every choice from a range is its least; 0 would be drawn again for ever,
/// since the standard library rejects it for most ranges.
struct ConstantRandom: RandomNumberGenerator {
    var bits: UInt64

    mutating func next() -> UInt64 { bits }
}
