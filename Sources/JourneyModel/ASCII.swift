// The ASCII byte classes that parsers share, and hexadecimal digits.

extension UInt8 {
    package var isASCIIDigit: Bool { self &- 0x30 < 10 }

    package var isASCIILetter: Bool { (self | 0x20) &- 0x61 < 26 }

    /// Space to tilde: the bytes allowed in event ids and idempotency keys.
    var isPrintableASCII: Bool { self &- 0x20 < 95 }
}

extension Unicode.Scalar {
    /// Whether this is U+0000 to U+001F or U+007F to U+009F, the general category Cc.
    package var isControl: Bool { value < 0x20 || (0x7F...0x9F).contains(value) }
}

extension UInt8 {
    /// The value of a hexadecimal digit of either case; nil for any other byte.
    package var hexDigitValue: UInt8? {
        if isASCIIDigit { return self - 0x30 }
        let letter = (self | 0x20) &- 0x61
        return letter < 6 ? letter + 10 : nil
    }
}

extension Sequence<UInt8> {
    /// The bytes in hexadecimal: two lowercase digits for each byte.
    package var hexadecimal: String {
        func digit(_ value: UInt8) -> UInt8 { value < 10 ? 0x30 + value : 0x57 + value }
        var text: [UInt8] = []
        text.reserveCapacity(2 * underestimatedCount)
        for byte in self {
            text.append(digit(byte >> 4))
            text.append(digit(byte & 0xF))
        }
        return String(decoding: text, as: UTF8.self)
    }
}
