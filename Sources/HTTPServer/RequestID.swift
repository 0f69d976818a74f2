internal import HTTP1
internal import Synchronization

enum RequestID {
    static func of(_ fields: Fields) -> String {
        guard let given = fields.value("X-Request-Id"), isWellFormed(given) else { return make() }
        return String(decoding: given, as: UTF8.self)
    }

    /// Returns whether an id is safe in a log and in a field: `[A-Za-z0-9._-]{1,128}`.
    static func isWellFormed(_ text: some Collection<UInt8>) -> Bool {
        (1...128).contains(text.count) && text.allSatisfy(isAllowed)
    }

    static func isWellFormed(_ text: String) -> Bool {
        isWellFormed(text.utf8)
    }

    private static func isAllowed(_ byte: UInt8) -> Bool {
        switch byte {
        case UInt8(ascii: "A")...UInt8(ascii: "Z"), UInt8(ascii: "a")...UInt8(ascii: "z"): true
        case UInt8(ascii: "0")...UInt8(ascii: "9"): true
        case UInt8(ascii: "."), UInt8(ascii: "_"), UInt8(ascii: "-"): true
        default: false
        }
    }

    /// Returns a new id: a random number that is fixed for this process, then a counter. The id is not a secret. The
    /// first two billion ids have at most 15 bytes, which a String stores inline.
    static func make() -> String {
        let number = count.wrappingAdd(1, ordering: .relaxed).oldValue
        var digits = 1
        var rest = number / 36
        while rest > 0 {
            digits += 1
            rest /= 36
        }
        return String(unsafeUninitializedCapacity: processDigits + 1 + digits) { bytes in
            write(process, digits: processDigits, to: bytes, at: 0)
            bytes[processDigits] = UInt8(ascii: "-")
            write(number, digits: digits, to: bytes, at: processDigits + 1)
            return processDigits + 1 + digits
        }
    }

    private static func write(_ number: UInt64, digits: Int, to bytes: UnsafeMutableBufferPointer<UInt8>, at start: Int)
    {
        var rest = number
        for index in (start..<start + digits).reversed() {
            let digit = UInt8(truncatingIfNeeded: rest % 36)
            bytes[index] = digit < 10 ? UInt8(ascii: "0") + digit : UInt8(ascii: "a") + digit - 10
            rest /= 36
        }
    }

    /// The number of base-36 digits of the random number. 8 digits have about 41 random bits.
    private static let processDigits = 8
    private static let process = UInt64.random(in: 0..<2_821_109_907_456)
    private static let count = Atomic<UInt64>(0)
}
