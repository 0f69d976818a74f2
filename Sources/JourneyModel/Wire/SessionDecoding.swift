/// The body of `POST /native/sessions`: registers a session before its first event.
public struct SessionSubmission: Hashable, Sendable {
    /// 1 to 128 characters without control characters, like `chargerID` and `merchantID`.
    public var sessionID: String
    public var chargerID: String?
    public var merchantID: String?

    public init(sessionID: String, chargerID: String? = nil, merchantID: String? = nil) {
        self.sessionID = sessionID
        self.chargerID = chargerID
        self.merchantID = merchantID
    }

    public static func decode(_ body: [UInt8]) throws(BodyRefusal) -> SessionSubmission {
        let value: JSONValue
        do { value = try JSONValue.parse(body) } catch { throw .malformedJSON(error) }
        var members = MemberReader(value)
        if members.errors.isEmpty { members.require("session_id") }
        let sessionID = members.text("session_id")
        let chargerID = members.text("charger_id")
        let merchantID = members.text("merchant_id")
        guard members.errors.isEmpty, let sessionID else { throw .invalid(InvalidFields(members.errors)) }
        return SessionSubmission(sessionID: sessionID, chargerID: chargerID, merchantID: merchantID)
    }
}
