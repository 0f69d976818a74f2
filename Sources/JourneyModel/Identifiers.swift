/// The signed-in user: the `sub` of an access token. 1 to 128 characters.
public struct DriverID: Hashable, Sendable, CustomStringConvertible {
    public var rawValue: String

    public init(_ rawValue: String) {
        self.rawValue = rawValue
    }

    public var description: String { rawValue }

    /// Prefix of the id of every driver of `dwell simulate`. A person's id is `drv_...`, or whatever a holder of
    /// the signing key puts into a token, so no client can choose it.
    public static let simulatedPrefix = "simulated-"

    /// A driver of `dwell simulate`: left out of all metrics and never sent to analytics.
    public var isSimulated: Bool { rawValue.utf8.starts(with: Self.simulatedPrefix.utf8) }
}
