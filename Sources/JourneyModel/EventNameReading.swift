// Reads an EventName from the spelling in a request, or from the canonical name in a stored row. An invalid spelling in
// a request is a field error.

extension EventName {
    /// Reads the member `event` of a submission: the canonical name or the spelling of v1 clients. Both are
    /// case-sensitive.
    ///
    /// - Parameter pointer: JSON Pointer to the event object, for example `/events/3`; empty for a single event.
    /// - Throws: a `FieldError` at `/event` if `spelling` is not a name. Throws a `FieldError` at `/session_id` if the
    ///   event requires a session and has none, or if it is an `anchor_lost` with a session.
    public init(spelling: String, hasSession: Bool, at pointer: String = "") throws(FieldError) {
        var spelling = spelling
        self = try spelling.withUTF8 { Self.reading($0, hasSession: hasSession, at: pointer) }.get().name
    }

    /// Reads the name by the rules of `init(spelling:hasSession:at:)`. Also returns the spelling as a String.
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
            // With a session, the spelling `exitedChargerAnchorZone` means `departedCharger`. The spelling
            // `anchor_lost` is an error, because an anchor is lost only before a session begins.
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

    /// Restores the name of a stored event from its `canonical` name. Returns nil for a text that is not a valid name.
    ///
    /// `hasSession` distinguishes `anchorLost` and `departedCharger`, which share a canonical name.
    public init?(canonical: String, hasSession: Bool) {
        guard Self.isName(canonical) else { return nil }
        self = Self.byCanonicalName[canonical] ?? .diagnostic(canonical)
        if self == .anchorLost && hasSession { self = .departedCharger }
    }

    /// Returns whether the text matches `[A-Za-z][A-Za-z0-9_]{0,63}`.
    static func isName(_ text: String) -> Bool {
        var text = text
        return text.withUTF8 { isName($0) }
    }

    private static func isName(_ bytes: UnsafeBufferPointer<UInt8>) -> Bool {
        guard bytes.count <= 64, let first = bytes.first, first.isASCIILetter else { return false }
        return bytes.allSatisfy { $0.isASCIILetter || $0.isASCIIDigit || $0 == UInt8(ascii: "_") }
    }

    /// Returns the name and its spelling, or nil if the spelling is not a valid name. For a listed name, returns the
    /// table's String, so that no String is made.
    private static func named(_ spelling: UnsafeBufferPointer<UInt8>) -> (EventName, String)? {
        for row in spellings where row.length == spelling.count && row.text.utf8.elementsEqual(spelling) {
            return (row.name, row.text)
        }
        guard isName(spelling) else { return nil }
        let text = String(decoding: spelling, as: UTF8.self)
        return (.diagnostic(text), text)
    }

    /// Both spellings of every listed name, and `chargerTargetSet`, a further spelling of chargerTargeted. The spelling
    /// `exitedChargerAnchorZone` is found as `anchorLost`, because `listed` has `anchorLost` before `departedCharger`.
    /// With a session, `reading` changes `anchorLost` to `departedCharger`.
    private static let spellings =
        listed.map { (text: $0.canonical, length: $0.canonical.utf8.count, name: $0) }
        + listed.map { (text: $0.v1Spelling, length: $0.v1Spelling.utf8.count, name: $0) }
        + [(text: "chargerTargetSet", length: 16, name: .chargerTargeted)]

    private static let byCanonicalName = Dictionary(
        listed.map { ($0.canonical, $0) }, uniquingKeysWith: { first, _ in first })
}
