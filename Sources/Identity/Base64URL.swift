// base64url without padding (RFC 4648, section 5; RFC 7515, section 2). Foundation is not used, because it supports
// only the standard alphabet of base64. Converting between the two alphabets would take longer than verifying a
// signature of the same data.

package enum Base64URL {
    private static let alphabet = Array("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_".utf8)
    /// Maps each byte to its six-bit value, or to `invalid` if the byte is not in the alphabet.
    private static let values: [UInt8] = {
        var values = [UInt8](repeating: invalid, count: 256)
        for (value, byte) in alphabet.enumerated() { values[Int(byte)] = UInt8(value) }
        return values
    }()
    private static let invalid: UInt8 = 0xFF

    package static func text(of bytes: some Sequence<UInt8>) -> String {
        bytes.withContiguousStorageIfAvailable(encode) ?? Array(bytes).withUnsafeBufferPointer(encode)
    }

    /// Decodes a text. Returns nil if its length is impossible, or if a character is not in the alphabet.
    ///
    /// Some bits of the last character may belong to no byte. If `isCanonical` is true, they must be zero, so that
    /// different texts decode to different bytes. If it is false, they are ignored.
    package static func bytes(of text: some StringProtocol, isCanonical: Bool = false) -> [UInt8]? {
        let decode = { (text: UnsafeBufferPointer<UInt8>) in bytes(of: text, isCanonical: isCanonical) }
        return text.utf8.withContiguousStorageIfAvailable(decode) ?? Array(text.utf8).withUnsafeBufferPointer(decode)
    }

    /// Like the function above, for a text in ASCII bytes.
    static func bytes(of text: UnsafeBufferPointer<UInt8>, isCanonical: Bool) -> [UInt8]? {
        let rest = text.count % 4
        guard rest != 1 else { return nil }
        return values.withUnsafeBufferPointer { values -> [UInt8]? in
            var isValid = true
            let count = text.count / 4 * 3 + max(rest - 1, 0)
            let bytes = [UInt8](unsafeUninitializedCapacity: count) { bytes, initializedCount in
                // The bitwise OR of all values. A byte outside the alphabet has the value 0xFF, and sets the upper two
                // bits. One check of these bits at the end is therefore enough.
                var marks: UInt8 = 0
                var (input, output) = (0, 0)
                func next() -> UInt32 {
                    let value = values[Int(text[input])]
                    marks |= value
                    input += 1
                    return UInt32(value)
                }
                while input + 4 <= text.count {
                    let bits = next() << 18 | next() << 12 | next() << 6 | next()
                    bytes[output] = UInt8(truncatingIfNeeded: bits >> 16)
                    bytes[output + 1] = UInt8(truncatingIfNeeded: bits >> 8)
                    bytes[output + 2] = UInt8(truncatingIfNeeded: bits)
                    output += 3
                }
                var unused: UInt32 = 0
                if rest == 2 {
                    let bits = next() << 6 | next()
                    bytes[output] = UInt8(truncatingIfNeeded: bits >> 4)
                    unused = bits & 0xF
                } else if rest == 3 {
                    let bits = next() << 12 | next() << 6 | next()
                    bytes[output] = UInt8(truncatingIfNeeded: bits >> 10)
                    bytes[output + 1] = UInt8(truncatingIfNeeded: bits >> 2)
                    unused = bits & 0x3
                }
                initializedCount = count
                isValid = marks & 0xC0 == 0 && (unused == 0 || !isCanonical)
            }
            return isValid ? bytes : nil
        }
    }

    private static func encode(_ bytes: UnsafeBufferPointer<UInt8>) -> String {
        let rest = bytes.count % 3
        let count = bytes.count / 3 * 4 + (rest == 0 ? 0 : rest + 1)
        return alphabet.withUnsafeBufferPointer { alphabet in
            String(unsafeUninitializedCapacity: count) { text in
                var output = 0
                func put(_ bits: UInt32) {
                    text[output] = alphabet[Int(bits & 0x3F)]
                    output += 1
                }
                var input = 0
                while input + 3 <= bytes.count {
                    let bits = UInt32(bytes[input]) << 16 | UInt32(bytes[input + 1]) << 8 | UInt32(bytes[input + 2])
                    put(bits >> 18)
                    put(bits >> 12)
                    put(bits >> 6)
                    put(bits)
                    input += 3
                }
                if rest == 1 {
                    let bits = UInt32(bytes[input]) << 4
                    put(bits >> 6)
                    put(bits)
                } else if rest == 2 {
                    let bits = (UInt32(bytes[input]) << 8 | UInt32(bytes[input + 1])) << 2
                    put(bits >> 12)
                    put(bits >> 6)
                    put(bits)
                }
                return output
            }
        }
    }

    static func isInAlphabet(_ byte: UInt8) -> Bool { values[Int(byte)] != invalid }
}
