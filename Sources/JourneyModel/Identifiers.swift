// The ids of the domain that have a type of their own.

/// The signed-in user: the `sub` of an access token. 1 to 128 characters.
///
/// Two ids are equal only if they have the same bytes, as in the database. `==` on String also treats canonically
/// equivalent texts as equal, such as the composed and the decomposed form of é.
public struct DriverID: Hashable, Sendable, CustomStringConvertible {
    public var rawValue: String

    public init(_ rawValue: String) {
        self.rawValue = rawValue
    }

    public var description: String { rawValue }

    public static func == (one: DriverID, other: DriverID) -> Bool { haveSameBytes(one.rawValue, other.rawValue) }

    public func hash(into hasher: inout Hasher) {
        var text = rawValue
        text.withUTF8 { hasher.combine(bytes: UnsafeRawBufferPointer($0)) }
        // Separates the id from what is hashed after it.
        hasher.combine(0xFF as UInt8)
    }

    /// Prefix of the id of every driver of `dwell simulate`. A client cannot choose such an id, because the server
    /// issues only ids of the form `drv_...`. Only a holder of the signing key can make tokens with other ids.
    public static let simulatedPrefix = "simulated-"

    /// Whether this is a pseudonym, under which the server keeps the remaining rows of a deleted driver. No token has
    /// such an id.
    public var isPseudonym: Bool { rawValue.utf8.starts(with: "erased-".utf8) }

    /// Whether this is a driver of `dwell simulate`. The metrics and the operator page do not count such drivers and
    /// their events. The events are never sent to analytics and cause no notifications.
    public var isSimulated: Bool { rawValue.utf8.starts(with: Self.simulatedPrefix.utf8) }
}
