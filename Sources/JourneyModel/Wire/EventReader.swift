// Makes an EventSubmission from the members of one event (contract, section 3). The route decides which members are
// required, forbidden or ignored.

/// Decodes one event, field by field, in the order of the contract's table.
struct EventReader {
    private let members: EventMembers
    private let route: EventRoute
    private let headers: EventHeaders
    private var errors: [FieldError] = []

    init(_ members: EventMembers, route: EventRoute, headers: EventHeaders) {
        self.members = members
        self.route = route
        self.headers = headers
    }

    mutating func submission() throws(InvalidFields) -> EventSubmission {
        guard members.isObject else {
            throw InvalidFields([FieldError(pointer: "", detail: "must be a JSON object")])
        }
        let schemaVersion = schemaVersion()
        let (eventID, idempotencyKey) = keys()
        let driverID = driverID()
        let sessionID = sessionID()
        let chargerID = shortText(.chargerID)
        let merchantID = shortText(.merchantID)
        let event = event()
        let (occurredAt, occurredAtText) = occurredAt()
        let (sentAt, timestamp) = sendTimes()
        let source = source()
        let appState = appState()
        let sequence = sequence()
        let metadata = metadata()
        let details = details()
        guard errors.isEmpty, let event, let occurredAt, let occurredAtText, let eventID, let idempotencyKey else {
            throw InvalidFields(errors)
        }
        var submission = EventSubmission(
            name: event.name, spelling: event.spelling, schemaVersion: schemaVersion, eventID: eventID,
            idempotencyKey: route == .service ? EventSubmission.servicePrefix + idempotencyKey : idempotencyKey,
            driverID: driverID, sessionID: sessionID, chargerID: chargerID, merchantID: merchantID,
            occurredAt: occurredAt, occurredAtText: occurredAtText, sentAt: sentAt, timestamp: timestamp,
            source: source, appState: appState, sequence: sequence, metadata: metadata?.compact,
            previousState: metadata?.value.previousState, details: details, canonicalForm: [])
        submission.canonicalForm = submission.canonicalForm(metadata: metadata?.value)
        return submission
    }

    // MARK: Names and keys

    /// Reads `schema_version`. Its default is `1.0`. A newer minor version is accepted, because it only adds members,
    /// and unknown members are ignored.
    private mutating func schemaVersion() -> String {
        let version = text(.schemaVersion, "must be 1.0 or another version 1") { version in
            let minor = version.utf8.dropFirst(2)
            return version.utf8.starts(with: "1.".utf8) && (1...8).contains(minor.count)
                && minor.allSatisfy(\.isASCIIDigit)
        }
        return version ?? "1.0"
    }

    /// Reads event_id and the idempotency key. If one of the two is absent, the other is used for both. The idempotency
    /// key may be in the body or in the header.
    private mutating func keys() -> (eventID: String?, idempotencyKey: String?) {
        let eventID = key(.eventID)
        let inBody = key(.idempotencyKey)
        // Quotes around the header's value are header syntax and are removed. Exception: if the key in the body is
        // equal to the header's value, quotes included, the quotes are a part of the key.
        let inHeader = headers.idempotencyKey.map { $0 == inBody ? $0 : Self.unquoted($0) }
        if let inHeader {
            if !Self.isKey(inHeader) {
                errors.note(FieldError(pointer: EventHeaders.idempotencyKeyName, detail: Self.keyRule))
            } else if let inBody, inBody != inHeader {
                errors.note(
                    FieldError(
                        pointer: EventHeaders.idempotencyKeyName, detail: "must equal idempotency_key in the body")
                )
            }
        } else if !members.has(.eventID) {
            require(.idempotencyKey, "or event_id is required")
        }
        let key = inBody ?? inHeader ?? eventID
        return (eventID ?? key, key)
    }

    private static let keyRule = "must be 1 to 128 printable ASCII characters"

    private mutating func key(_ name: EventMemberName) -> String? {
        boundedText(name, Self.keyRule, where: Self.isKey)
    }

    private static func isKey(_ text: String) -> Bool {
        (1...128).contains(text.utf8.count) && text.utf8.allSatisfy(\.isPrintableASCII)
    }

    /// Returns the key without surrounding quotes. Clients that follow draft-ietf-httpapi-idempotency-key-header send
    /// the key in quotes.
    private static func unquoted(_ header: String) -> String {
        let isQuoted = header.utf8.count >= 2 && header.hasPrefix("\"") && header.hasSuffix("\"")
        return isQuoted ? String(header.dropFirst().dropLast()) : header
    }

    private mutating func driverID() -> String? {
        switch route {
        case .native: break
        case .service: require(.driverID, "is required of a service")
        case .v1Session, .v1PreSession: return nil
        }
        return shortText(.driverID)
    }

    private mutating func sessionID() -> String? {
        switch route {
        case .native, .service: break
        case .v1Session: require(.sessionID, "is required on this route")
        case .v1PreSession:
            if members.has(.sessionID) { refuse(.sessionID, "must be absent on this route") }
        }
        return shortText(.sessionID)
    }

    private mutating func event() -> (name: EventName, spelling: String)? {
        require(.event)
        guard case .text(let text) = members[.event] else {
            if members.has(.event) { refuse(.event, "must be a string") }
            return nil
        }
        let hasSession = members.has(.sessionID)
        switch text.withUTF8({ EventName.reading($0, hasSession: hasSession) }) {
        case .success(let event): return event
        case .failure(let error):
            errors.note(error)
            return nil
        }
    }

    // MARK: Times

    private mutating func occurredAt() -> (moment: Moment?, text: String?) {
        require(.occurredAt)
        guard let moment = moment(.occurredAt), case .text(let text) = members[.occurredAt] else { return (nil, nil) }
        return (moment, text.string)
    }

    private static let momentRule = "must be an RFC 3339 date-time with an offset"

    private mutating func moment(_ name: EventMemberName) -> Moment? {
        guard members.has(name) else { return nil }
        if case .text(let text) = members[name], let moment = text.withUTF8(Self.moment) { return moment }
        refuse(name, Self.momentRule)
        return nil
    }

    /// Reads the send times. A client sets the header `X-Sent-At` anew for each attempt. `timestamp` is the time at
    /// which the client first put the event into a request.
    private mutating func sendTimes() -> (sentAt: Moment?, timestamp: Moment?) {
        if route.requiresTimestamp { require(.timestamp) }
        let timestamp = moment(.timestamp)
        guard var header = headers.sentAt else { return (nil, timestamp) }
        let sentAt = header.withUTF8(Self.moment)
        if sentAt == nil { errors.note(FieldError(pointer: EventHeaders.sentAtName, detail: Self.momentRule)) }
        return (sentAt, timestamp)
    }

    /// Parses a time of at most 64 bytes. The length is limited, because the text is stored as sent. Without the limit,
    /// its fraction of a second could have kilobytes of digits.
    private static func moment(of text: UnsafeBufferPointer<UInt8>) -> Moment? {
        text.count <= 64 ? RFC3339.moment(from: text) : nil
    }

    // MARK: Other members

    private mutating func source() -> String {
        let source = shortText(.source) ?? (route == .service ? "web" : "ios_native")
        if source == "server" { refuse(.source, "must not be server, which is reserved") }
        return source
    }

    private mutating func appState() -> String? {
        text(.appState, "must be foreground or background") { $0 == "foreground" || $0 == "background" }
    }

    private mutating func sequence() -> Int64? {
        guard members.has(.sequence) else { return nil }
        if case .number(let text) = members[.sequence],
            let sequence = WholeNumber.read(text), sequence >= 0
        {
            return sequence
        }
        refuse(.sequence, "must be an integer from 0 to \(Int64.max)")
        return nil
    }

    private mutating func metadata() -> (value: JSONValue, compact: String)? {
        guard members.has(.metadata) else { return nil }
        guard case .object(let value, let asSent) = members[.metadata] else {
            refuse(.metadata, "must be a JSON object")
            return nil
        }
        let compact = asSent.map { String(decoding: $0, as: UTF8.self) } ?? value.compact
        guard compact.utf8.count <= EventSubmission.metadataBytesMax else {
            refuse(.metadata, "must be at most \(EventSubmission.metadataBytesMax) bytes of compact JSON")
            return nil
        }
        return (value, compact)
    }

    /// Returns the event's details as a compact JSON object, or nil if the event has none.
    private mutating func details() -> String? {
        guard !members.detailValues.isEmpty else { return nil }
        var writer = JSONWriter(reservingBytes: 64)
        writer.beginObject()
        var hasAny = false
        for (detail, value) in zip(members.details, members.detailValues) {
            if case .absent = value { continue }
            if detail.form.write(value, named: detail.name, to: &writer) {
                hasAny = true
            } else {
                errors.note(FieldError(pointer: "/\(detail.name)", detail: detail.form.rule))
            }
        }
        writer.endObject()
        return hasAny ? String(decoding: writer.bytes, as: UTF8.self) : nil
    }
}

extension JSONValue {
    /// The client's state before the event, as reported in `metadata`. A value that is not the name of a state is
    /// ignored.
    fileprivate var previousState: JourneyState? {
        guard case .string(let text)? = self["previous_state"] else { return nil }
        return JourneyState(rawValue: text)
    }
}

// MARK: The forms that members share

extension EventReader {
    /// Reads an optional text of 1 to 128 Unicode scalars without control characters.
    private mutating func shortText(_ name: EventMemberName) -> String? {
        boundedText(name, MemberReader.textRule(charactersMax: 128)) { MemberReader.isText($0, charactersMax: 128) }
    }

    /// Reads an optional text and checks it with `isValid`. A text of 1 to 128 printable ASCII characters is accepted
    /// without this check, because it is valid by every rule that callers pass.
    private mutating func boundedText(
        _ name: EventMemberName, _ rule: @autoclosure () -> String, where isValid: (String) -> Bool
    ) -> String? {
        if case .text(.printable(let bytes)) = members[name], (1...128).contains(bytes.count) {
            return String(decoding: bytes, as: UTF8.self)
        }
        return text(name, rule(), where: isValid)
    }

    /// Reads an optional string. If the value is not a string, or if `isValid` rejects it, records an error with the
    /// text `rule`.
    private mutating func text(
        _ name: EventMemberName, _ rule: @autoclosure () -> String, where isValid: (String) -> Bool
    ) -> String? {
        guard members.has(name) else { return nil }
        if case .text(let text) = members[name] {
            let string = text.string
            if isValid(string) { return string }
        }
        refuse(name, rule())
        return nil
    }

    private mutating func require(_ name: EventMemberName, _ detail: @autoclosure () -> String = "is required") {
        if !members.has(name) { refuse(name, detail()) }
    }

    private mutating func refuse(_ name: EventMemberName, _ detail: @autoclosure () -> String) {
        errors.note(FieldError(pointer: name.pointer, detail: detail()))
    }
}
