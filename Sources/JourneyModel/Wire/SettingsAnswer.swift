// The response of `GET /native/config`, and the version that identifies a set of settings.

extension Settings {
    /// The eight members in the order of the contract, as JSON numbers, `400` and not `400.0`. Equal settings
    /// have equal bytes.
    public var wireJSON: [UInt8] {
        var writer = JSONWriter(reservingBytes: 256)
        writer.beginObject()
        for declaration in Self.declarations {
            writer.name(declaration.field)
            writer.raw(declaration.text(in: self))
        }
        writer.endObject()
        return writer.bytes
    }

    /// The opaque tag of the ETag, without quotes: 16 lowercase hexadecimal digits, the FNV-1a hash of `wireJSON` in
    /// 64 bits. The same in all processes and releases as long as the encoding does not change; stored with every
    /// event.
    public var version: String {
        var hash: UInt64 = 0xCBF2_9CE4_8422_2325
        for byte in wireJSON {
            hash = (hash ^ UInt64(byte)) &* 0x0000_0100_0000_01B3
        }
        let digits = String(hash, radix: 16)
        return String(repeating: "0", count: 16 - digits.count) + digits
    }
}
