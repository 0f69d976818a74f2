// The response of `GET /native/config`, and the version that identifies a set of settings.

extension Settings {
    /// A JSON object with the eight settings in the order of the contract. The values are JSON numbers, for example
    /// `400` and not `400.0`. Equal settings have equal bytes.
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

    /// The opaque tag of the ETag, without quotes: the 64-bit FNV-1a hash of `wireJSON` in 16 lowercase hexadecimal
    /// digits. It is stored with every event. Equal settings have the same version in all processes, and in all
    /// releases that encode `wireJSON` in the same way.
    public var version: String { Self.tag(of: wireJSON) }

    /// Returns the 64-bit FNV-1a hash of the bytes in 16 lowercase hexadecimal digits.
    public static func tag(of bytes: [UInt8]) -> String {
        var hash: UInt64 = 0xCBF2_9CE4_8422_2325
        for byte in bytes {
            hash = (hash ^ UInt64(byte)) &* 0x0000_0100_0000_01B3
        }
        let digits = String(hash, radix: 16)
        return String(repeating: "0", count: 16 - digits.count) + digits
    }

    /// Reads the settings from the response of `GET /native/config`. Ignores all other members.
    ///
    /// Returns nil if any setting is missing or violates a rule of the contract (section 2), because a program must not
    /// use only some of the settings. A number may have an exponent, because `wireJSON` writes 0.00005 as `5e-05`.
    public init?(configJSON json: JSONValue) {
        self.init()
        for declaration in Self.declarations {
            guard case .number(let text)? = json[declaration.field], let number = Double(text), number > 0,
                number <= declaration.valueMax
            else { return nil }
            switch declaration.value {
            case .decimal(let path): self[keyPath: path] = number
            case .integer(let path):
                guard let whole = Int(exactly: number) else { return nil }
                self[keyPath: path] = whole
            }
        }
        guard chargerAnchorRadiusMeters <= chargerIntentRadiusMeters, gracePeriodSeconds <= hardTimeoutSeconds else {
            return nil
        }
    }
}
