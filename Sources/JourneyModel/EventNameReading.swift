// From a spelling to an EventName: at the door, where a wrong one is a field error, and from a stored row,
// where whatever was stored reads back. It knows neither routes nor rows.

extension EventName {
    /// Reads the member `event` of a submission, in either spelling; case counts.
    ///
    /// - Parameter pointer: of the object that the event is, for example `/events/3`; empty for a single event.
    /// - Throws: a `FieldError` at `/event` when `spelling` is no name, at `/session_id` when the event needs a
    ///   session and has none, or has one and must not (`anchor_lost`).
    public init(spelling: String, hasSession: Bool, at pointer: String = "") throws(FieldError) {
        guard Self.isName(spelling) else {
            throw FieldError(
                pointer: pointer + "/event",
                detail: "must be a letter followed by at most 63 letters, digits or underscores")
        }
        let name = Self.named(spelling, hasSession: hasSession)
        if name == .anchorLost && hasSession {
            throw FieldError(pointer: pointer + "/session_id", detail: "must be absent from anchor_lost")
        }
        if name.requiresSession && !hasSession {
            throw FieldError(pointer: pointer + "/session_id", detail: "is required by this event")
        }
        self = name
    }

    /// Reads back a stored row. For every event that `init(spelling:hasSession:at:)` accepted this answers an
    /// equal one from its `canonical` and whether it had a session. Nil for what could never be stored.
    public init?(canonical: String, hasSession: Bool) {
        guard Self.isName(canonical) else { return nil }
        self = Self.byCanonicalName[canonical] ?? .diagnostic(canonical)
        if self == .anchorLost && hasSession { self = .departedCharger }
    }

    /// `[A-Za-z][A-Za-z0-9_]{0,63}`
    static func isName(_ text: String) -> Bool {
        let bytes = text.utf8
        guard bytes.count <= 64, let first = bytes.first, first.isASCIILetter else { return false }
        return bytes.allSatisfy { $0.isASCIILetter || $0.isASCIIDigit || $0 == UInt8(ascii: "_") }
    }

    /// `exitedChargerAnchorZone` is the one spelling that the session decides.
    private static func named(_ spelling: String, hasSession: Bool) -> EventName {
        guard let name = byCanonicalName[spelling] ?? byV1Spelling[spelling] else { return .diagnostic(spelling) }
        return spelling == name.canonical && name == .anchorLost && hasSession ? .departedCharger : name
    }

    /// The shared name `exitedChargerAnchorZone` leads to `anchorLost`, the one of the two without a session.
    private static let byCanonicalName = Dictionary(
        listed.map { ($0.canonical, $0) }, uniquingKeysWith: { first, _ in first })

    private static let byV1Spelling = Dictionary(
        listed.map { ($0.v1Spelling, $0) }, uniquingKeysWith: { first, _ in first })
}
