// Reads members of an App Store payload by name and type. Members that no caller reads are ignored, but remain in the
// stored payload. A member that is `null` counts as absent.

package import JourneyModel

package struct PayloadReader: Hashable, Sendable {
    /// Maximum bytes of a text. Apple's identifiers have at most 64 characters, product ids and bundle ids at most 255.
    static let textBytesMax = 255

    private let json: JSONValue

    package init(_ json: JSONValue) {
        self.json = json
    }

    /// Throws `malformed` if the payload is not a JSON object.
    init(payload: [UInt8]) throws(PurchaseRefusal) {
        guard let json = try? JSONValue.parse(payload), case .object = json else { throw .malformed }
        self.json = json
    }

    private subscript(name: String) -> JSONValue? {
        guard let value = json[name], value != .null else { return nil }
        return value
    }

    /// Returns the text of a member, which must have 1 to 255 printable ASCII characters and no spaces. Returns nil if
    /// the member is absent.
    package func optionalText(_ name: String) throws(PurchaseRefusal) -> String? {
        guard let value = self[name] else { return nil }
        guard case .string(let text) = value, (1...Self.textBytesMax).contains(text.utf8.count),
            text.utf8.allSatisfy({ (0x21...0x7E).contains($0) })
        else { throw .wrongClaims }
        return text
    }

    package func text(_ name: String) throws(PurchaseRefusal) -> String {
        guard let text = try optionalText(name) else { throw .wrongClaims }
        return text
    }

    /// Returns a string with any characters, such as a nested JWS. Only `SignedPayload.bytesMax`, the limit for the
    /// whole JWS, limits its length.
    package func optionalToken(_ name: String) throws(PurchaseRefusal) -> String? {
        guard let value = self[name] else { return nil }
        guard case .string(let text) = value else { throw .wrongClaims }
        return text
    }

    /// Returns a string of 1 to 255 bytes that may contain spaces, such as the product type "Auto-Renewable
    /// Subscription".
    package func phrase(_ name: String) throws(PurchaseRefusal) -> String {
        guard case .string(let text) = self[name], (1...Self.textBytesMax).contains(text.utf8.count) else {
            throw .wrongClaims
        }
        return text
    }

    package func optionalInteger(_ name: String) throws(PurchaseRefusal) -> Int64? {
        guard let value = self[name] else { return nil }
        guard case .number(let text) = value, let number = Int64(text) else { throw .wrongClaims }
        return number
    }

    /// Returns a time, given in milliseconds since 1970, up to the end of the year 9999. StoreKit testing in Xcode may
    /// add a fraction of a millisecond (1697679936049.7297). The fraction is ignored.
    package func optionalMoment(_ name: String) throws(PurchaseRefusal) -> Moment? {
        guard let number = try isSignedByApple ? optionalInteger(name) : optionalWholePart(name) else { return nil }
        guard (0...253_402_300_799_999).contains(number) else { throw .wrongClaims }
        return Moment(millisecondsSinceEpoch: number)
    }

    /// Whether Apple signs data in the payload's environment. True if the payload names no environment or an unknown
    /// one.
    private var isSignedByApple: Bool {
        guard case .string(let text) = self["environment"] else { return true }
        return AppStoreEnvironment(rawValue: text)?.isSignedByApple ?? true
    }

    /// Returns a number without its fraction. A number with an exponent is not accepted.
    private func optionalWholePart(_ name: String) throws(PurchaseRefusal) -> Int64? {
        guard let value = self[name] else { return nil }
        guard case .number(let text) = value else { throw .wrongClaims }
        let parts = text.split(separator: ".", maxSplits: 1, omittingEmptySubsequences: false)
        guard parts.dropFirst().allSatisfy({ $0.utf8.allSatisfy(\.isASCIIDigit) }), let number = Int64(parts[0]) else {
            throw .wrongClaims
        }
        return number
    }

    package func moment(_ name: String) throws(PurchaseRefusal) -> Moment {
        guard let moment = try optionalMoment(name) else { throw .wrongClaims }
        return moment
    }

    /// Returns a Boolean; false if the member is absent.
    package func flag(_ name: String) throws(PurchaseRefusal) -> Bool {
        guard let value = self[name] else { return false }
        guard case .bool(let flag) = value else { throw .wrongClaims }
        return flag
    }

    package func environment(_ name: String = "environment") throws(PurchaseRefusal) -> AppStoreEnvironment {
        guard let environment = AppStoreEnvironment(rawValue: try text(name)) else { throw .wrongEnvironment }
        return environment
    }

    /// Returns nil if the member is absent.
    func optionalEnvironment(_ name: String = "environment") throws(PurchaseRefusal) -> AppStoreEnvironment? {
        self[name] == nil ? nil : try environment(name)
    }

    /// The members that are objects.
    var objects: [PayloadReader] {
        guard case .object(let members) = json else { return [] }
        return members.compactMap { member in
            if case .object = member.value { PayloadReader(member.value) } else { nil }
        }
    }

    package func optionalObject(_ name: String) throws(PurchaseRefusal) -> PayloadReader? {
        guard let value = self[name] else { return nil }
        guard case .object = value else { throw .wrongClaims }
        return PayloadReader(value)
    }

    /// Returns a UUID in lower case. Apple sends UUIDs in both cases.
    package func optionalUUID(_ name: String) throws(PurchaseRefusal) -> String? {
        guard let text = try optionalText(name)?.lowercased() else { return nil }
        let bytes = Array(text.utf8)
        let isUUID =
            bytes.count == 36
            && bytes.indices.allSatisfy { index in
                [8, 13, 18, 23].contains(index)
                    ? bytes[index] == UInt8(ascii: "-")
                    : bytes[index].hexDigitValue != nil
            }
        guard isUUID else { throw .wrongClaims }
        return text
    }
}
