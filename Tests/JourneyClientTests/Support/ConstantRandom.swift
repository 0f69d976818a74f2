/// A generator that returns the same number every time. With 1, each choice from a range is its smallest value. With 0,
/// a choice would never end, because the standard library rejects 0 for most ranges.
struct ConstantRandom: RandomNumberGenerator {
    var bits: UInt64

    mutating func next() -> UInt64 { bits }
}
