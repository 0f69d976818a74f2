// Finds the first byte of a JSON string that cannot be copied unchanged. Examines eight bytes at a time.

/// The leading part of a text, up to the first stop byte: a quote, a backslash or a control character. In a JSON
/// string, a stop byte ends the string, begins an escape or is not allowed (RFC 8259, section 7).
struct PlainText {
    /// Offset of the first stop byte. The end of the text if there is no stop byte.
    var end: Int
    /// Whether all bytes before `end` are space to tilde.
    var isPrintableASCII: Bool

    init(of bytes: UnsafeBufferPointer<UInt8>, from start: Int = 0) {
        let raw = UnsafeRawBufferPointer(bytes)
        var (offset, beyond) = (start, UInt64(0))
        while offset + 8 <= bytes.count {
            let eight = EightBytes(UInt64(littleEndian: raw.loadUnaligned(fromByteOffset: offset, as: UInt64.self)))
            let stops = eight.stops
            if stops != 0 {
                let stop = stops.trailingZeroBitCount & ~7
                beyond |= eight.beyondPrintable & (1 << UInt64(truncatingIfNeeded: stop) &- 1)
                offset += stop >> 3
                end = offset
                isPrintableASCII = beyond & EightBytes.highBits == 0
                return
            }
            beyond |= eight.beyondPrintable
            offset += 8
        }
        while offset < bytes.count {
            let byte = bytes[offset]
            if byte < 0x20 || byte == 0x22 || byte == 0x5C { break }
            if byte >= 0x7F { beyond = EightBytes.highBits }
            offset += 1
        }
        end = offset
        isPrintableASCII = beyond & EightBytes.highBits == 0
    }
}

/// Eight bytes of a text, with the first byte in the lowest bits. Each property below returns a word that marks some of
/// these bytes. A byte is marked if its high bit in the word is set.
private struct EightBytes {
    static let ones: UInt64 = 0x0101_0101_0101_0101
    static let highBits: UInt64 = 0x8080_8080_8080_8080

    let bytes: UInt64

    init(_ bytes: UInt64) {
        self.bytes = bytes
    }

    /// Marks the stop bytes. Only the first mark is reliable, and only the first is used. Bytes after the first stop
    /// byte may be marked wrongly, because the subtraction at the stop byte may borrow from them.
    var stops: UInt64 {
        let control = (bytes &- 0x20 &* Self.ones) & ~bytes
        return (control | Self.zeros(in: bytes ^ 0x22 &* Self.ones) | Self.zeros(in: bytes ^ 0x5C &* Self.ones))
            & Self.highBits
    }

    /// Marks DEL and all bytes above 0x7F. For a byte 0xFF, the addition carries into the next byte, which may then be
    /// marked too. This does no harm, because the caller only checks whether any byte is marked.
    var beyondPrintable: UInt64 { bytes | (bytes &+ Self.ones) }

    private static func zeros(in bytes: UInt64) -> UInt64 {
        (bytes &- ones) & ~bytes
    }
}
