// The ASCII byte classes that the parsers of this module share.

extension UInt8 {
    var isASCIIDigit: Bool { self &- 0x30 < 10 }

    var isASCIILetter: Bool { (self | 0x20) &- 0x61 < 26 }

    /// Space to tilde: the bytes allowed in event ids and idempotency keys.
    var isPrintableASCII: Bool { self &- 0x20 < 95 }
}

extension Unicode.Scalar {
    /// Whether this is U+0000 to U+001F or U+007F to U+009F, the general category Cc.
    var isControl: Bool { value < 0x20 || (0x7F...0x9F).contains(value) }
}

extension UInt8 {
    var hexDigitValue: UInt8? {
        if isASCIIDigit { return self - 0x30 }
        let letter = (self | 0x20) &- 0x61
        return letter < 6 ? letter + 10 : nil
    }
}
