/// Returns the same number every time. With 1, each choice from a range is its smallest value; 0 would repeat forever,
/// since the standard library rejects it for most ranges.
struct ConstantRandom: RandomNumberGenerator {
    var bits: UInt64

    mutating func next() -> UInt64 { bits }
}
