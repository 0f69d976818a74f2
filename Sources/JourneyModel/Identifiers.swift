/// The signed-in user: the `sub` of an access token. 1 to 128 characters.
public struct DriverID: Hashable, Sendable, CustomStringConvertible {
    public var rawValue: String

    public init(_ rawValue: String) {
        self.rawValue = rawValue
    }

    public var description: String { rawValue }
}
