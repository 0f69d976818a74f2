// W3C Trace Context, section 3.2: parses and writes the `traceparent` field. `tracestate` is not read.

/// The value of a `traceparent` field: the trace of a request, and the span of the caller within this trace.
package struct TraceParent: Hashable, Sendable {
    /// The trace id: 16 bytes, never all zero. The first eight bytes are in the high half.
    package let traceID: UInt128
    /// The span of the caller (`parent-id`), never zero.
    package let parentID: UInt64
    /// The flags. Bit 0 is "sampled". The other bits have no meaning in version 00 and are passed on unchanged.
    package let flags: UInt8

    package init?(traceID: UInt128, parentID: UInt64, flags: UInt8) {
        guard traceID != 0, parentID != 0 else { return nil }
        self.traceID = traceID
        self.parentID = parentID
        self.flags = flags
    }

    /// Parses a field value. Returns nil if the value is invalid. The specification requires the server to start a new
    /// trace in that case.
    ///
    /// If the version is above 00, only the first 55 characters are parsed. The value must end after these characters
    /// or continue with a dash (section 4.3).
    package init?(_ fieldValue: some StringProtocol) {
        let bytes = Array(fieldValue.utf8.prefix(Self.fieldBytesMax + 1))
        guard bytes.count >= 55, bytes.count <= Self.fieldBytesMax,
            bytes[2] == Self.dash, bytes[35] == Self.dash, bytes[52] == Self.dash,
            let version = Self.hexadecimal(bytes[0..<2], as: UInt8.self), version != 0xFF,
            bytes.count == 55 || (version > 0 && bytes[55] == Self.dash),
            let traceID = Self.hexadecimal(bytes[3..<35], as: UInt128.self),
            let parentID = Self.hexadecimal(bytes[36..<52], as: UInt64.self),
            let flags = Self.hexadecimal(bytes[53..<55], as: UInt8.self)
        else { return nil }
        self.init(traceID: traceID, parentID: parentID, flags: flags)
    }

    /// The trace's id in logs: 32 lowercase hexadecimal digits.
    package var traceIDText: String { Self.digits(traceID, count: 32) }

    /// The maximum length of the field in bytes. A later version of the specification may make the field longer, but a
    /// field over this maximum is rejected.
    private static let fieldBytesMax = 256
    private static let dash = UInt8(ascii: "-")

    /// Parses lowercase hexadecimal digits (HEXDIGLC). The grammar does not allow uppercase digits.
    private static func hexadecimal<Number: FixedWidthInteger>(
        _ digits: ArraySlice<UInt8>, as type: Number.Type
    ) -> Number? {
        var number: Number = 0
        for digit in digits {
            switch digit {
            case UInt8(ascii: "0")...UInt8(ascii: "9"): number = number << 4 | Number(digit - UInt8(ascii: "0"))
            case UInt8(ascii: "a")...UInt8(ascii: "f"): number = number << 4 | Number(digit - UInt8(ascii: "a") + 10)
            default: return nil
            }
        }
        return number
    }

    private static func digits(_ number: some FixedWidthInteger, count: Int) -> String {
        let digits = String(number, radix: 16)
        return String(repeating: "0", count: max(0, count - digits.utf8.count)) + digits
    }
}

extension TraceParent: CustomStringConvertible {
    /// The field value in version 00.
    package var description: String {
        "00-\(traceIDText)-\(Self.digits(parentID, count: 16))-\(Self.digits(flags, count: 2))"
    }
}
