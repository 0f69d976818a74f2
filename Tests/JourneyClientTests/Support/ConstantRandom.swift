/// A random number generator that always returns `bits`. With 1, a random choice from a range is the lowest value of
/// the range. With 0, most choices never end, because the standard library rejects 0 and asks again.
struct ConstantRandom: RandomNumberGenerator {
    var bits: UInt64

    mutating func next() -> UInt64 { bits }
}
