// From a spelling to an EventName: from a request, where a wrong one is a field error, and from a stored row, where
// every stored name reads back. It knows neither routes nor rows.

extension EventName {
    /// Reads the member `event` of a submission, in either spelling; case-sensitive.
    ///
    /// - Parameter pointer: JSON Pointer to the event object, for example `/events/3`; empty for a single event.
    /// - Throws: a `FieldError` at `/event` when `spelling` is not a name, at `/session_id` when the event requires
    ///   a session and has none, or must not have one and has (`anchor_lost`).
    public init(spelling: String, hasSession: Bool, at pointer: String = "") throws(FieldError) {
        var spelling = spelling
        self = try spelling.withUTF8 { Self.reading($0, hasSession: hasSession, at: pointer) }.get().name
    }

    /// The same for the UTF-8 of a spelling; also returns the spelling.
    static func reading(
        _ spelling: UnsafeBufferPointer<UInt8>, hasSession: Bool, at pointer: String = ""
    ) -> Result<(name: EventName, spelling: String), FieldError> {
        guard let (named, text) = named(spelling) else {
            return .failure(
                FieldError(
                    pointer: pointer + "/event",
                    detail: "must be a letter followed by at most 63 letters, digits or underscores"))
        }
        var name = named
        if name == .anchorLost && hasSession {
            // Only `exitedChargerAnchorZone` takes its meaning from the session.
            guard text == name.canonical else {
                return .failure(
                    FieldError(pointer: pointer + "/session_id", detail: "must be absent from anchor_lost"))
            }
            name = .departedCharger
        }
        if name.requiresSession && !hasSession {
            return .failure(FieldError(pointer: pointer + "/session_id", detail: "is required by this event"))
        }
        return .success((name, text))
    }

    /// Reads back a stored row. For every event that `init(spelling:hasSession:at:)` accepted, its `canonical` and
    /// whether it had a session give an equal name. Nil for a name that cannot have been stored.
    public init?(canonical: String, hasSession: Bool) {
        guard Self.isName(canonical) else { return nil }
        self = Self.byCanonicalName[canonical] ?? .diagnostic(canonical)
        if self == .anchorLost && hasSession { self = .departedCharger }
    }

    /// `[A-Za-z][A-Za-z0-9_]{0,63}`
    static func isName(_ text: String) -> Bool {
        var text = text
        return text.withUTF8 { isName($0) }
    }

    private static func isName(_ bytes: UnsafeBufferPointer<UInt8>) -> Bool {
        guard bytes.count <= 64, let first = bytes.first, first.isASCIILetter else { return false }
        return bytes.allSatisfy { $0.isASCIILetter || $0.isASCIIDigit || $0 == UInt8(ascii: "_") }
    }

    /// Any valid name, and its spelling as a String (for a listed name the table's own String). Nil if it is not a
    /// name.
    private static func named(_ spelling: UnsafeBufferPointer<UInt8>) -> (EventName, String)? {
        for row in spellings where row.length == spelling.count && row.text.utf8.elementsEqual(spelling) {
            return (row.name, row.text)
        }
        guard isName(spelling) else { return nil }
        let text = String(decoding: spelling, as: UTF8.self)
        return (.diagnostic(text), text)
    }

    /// Both spellings of every listed name, and one more that the app's source documents use. The shared
    /// `exitedChargerAnchorZone` maps to `anchorLost`, the one of the two without a session, because it comes
    /// first.
    private static let spellings =
        listed.map { (text: $0.canonical, length: $0.canonical.utf8.count, name: $0) }
        + listed.map { (text: $0.v1Spelling, length: $0.v1Spelling.utf8.count, name: $0) }
        + [(text: "chargerTargetSet", length: 16, name: .chargerTargeted)]

    private static let byCanonicalName = Dictionary(
        listed.map { ($0.canonical, $0) }, uniquingKeysWith: { first, _ in first })
}
