/// A generator whose every random number is `bits`. Tests use 1: a choice from a range is then the range's lowest
/// value. With 0, most choices would never end, because the standard library rejects a 0 and asks for another number.
struct ConstantRandom: RandomNumberGenerator {
    var bits: UInt64

    mutating func next() -> UInt64 { bits }
}
