// A second, plain decoder of events. It parses the whole body as a JSONValue, looks up each member by name, and makes
// the canonical form from Strings. The decoder in Sources must give the same result.

@testable import JourneyModel

enum PlainDecoding {
    static func decode(
        _ body: [UInt8], route: EventRoute, headers: EventHeaders
    ) throws(BodyRefusal) -> EventSubmission {
        let value: JSONValue
        do { value = try JSONValue.parse(body) } catch { throw .malformedJSON(error) }
        var reader = PlainEventReader(value, route: route, headers: headers)
        do { return try reader.submission() } catch { throw .invalid(error) }
    }
}

private struct PlainEventReader {
    private var members: MemberReader
    private let route: EventRoute
    private let headers: EventHeaders

    init(_ value: JSONValue, route: EventRoute, headers: EventHeaders) {
        members = MemberReader(value)
        self.route = route
        self.headers = headers
    }

    mutating func submission() throws(InvalidFields) -> EventSubmission {
        guard members.errors.isEmpty else { throw InvalidFields(members.errors) }
        let schemaVersion = schemaVersion()
        let (eventID, idempotencyKey) = keys()
        let driverID = driverID()
        let sessionID = sessionID()
        let chargerID = members.text("charger_id")
        let merchantID = members.text("merchant_id")
        let event = event()
        let occurredAt = moment("occurred_at", isRequired: true)
        let (sentAt, timestamp) = sendTimes()
        let source = source()
        let appState = appState()
        let sequence = sequence()
        let metadata = metadata()
        guard members.errors.isEmpty, let event, let occurredAt, let eventID, let idempotencyKey else {
            throw InvalidFields(members.errors)
        }
        var submission = EventSubmission(
            name: event.name, spelling: event.spelling, schemaVersion: schemaVersion, eventID: eventID,
            idempotencyKey: route == .service ? "\u{A7}service/\(idempotencyKey)" : idempotencyKey,
            driverID: driverID, sessionID: sessionID, chargerID: chargerID, merchantID: merchantID,
            occurredAt: occurredAt.moment, occurredAtText: occurredAt.text, sentAt: sentAt, timestamp: timestamp,
            source: source, appState: appState, sequence: sequence, metadata: metadata?.compact, canonicalForm: [])
        submission.canonicalForm = Array(submission.plainCanonicalForm(metadata: metadata?.value).utf8)
        return submission
    }

    // MARK: Names and keys

    /// Returns the schema version, by default 1.0. Newer minor versions are accepted, because they only add members.
    private mutating func schemaVersion() -> String {
        let version = members.text("schema_version", "must be 1.0 or another version 1") { version in
            let minor = version.utf8.dropFirst(2)
            return version.hasPrefix("1.") && (1...8).contains(minor.count)
                && minor.allSatisfy { (0x30...0x39).contains($0) }
        }
        return version ?? "1.0"
    }

    /// If the request has only an event id or only an idempotency key, it serves as both. The key may be in the body or
    /// in the header `Idempotency-Key`.
    private mutating func keys() -> (eventID: String?, idempotencyKey: String?) {
        let rule = "must be 1 to 128 printable ASCII characters"
        let eventID = members.text("event_id", rule, where: Self.isKey)
        let inBody = members.text("idempotency_key", rule, where: Self.isKey)
        // Quotes around the header's value are removed, unless the body contains the same key with its quotes.
        let inHeader = headers.idempotencyKey.map { $0 == inBody ? $0 : Self.unquoted($0) }
        if let inHeader {
            if !Self.isKey(inHeader) {
                members.note(FieldError(pointer: "Idempotency-Key", detail: rule))
            } else if let inBody, inBody != inHeader {
                members.note(
                    FieldError(
                        pointer: "Idempotency-Key", detail: "must equal idempotency_key in the body")
                )
            }
        } else if members.value("event_id") == nil {
            members.require("idempotency_key", "or event_id is required")
        }
        let key = inBody ?? inHeader ?? eventID
        return (eventID ?? key, key)
    }

    private static func isKey(_ text: String) -> Bool {
        (1...128).contains(text.utf8.count) && text.utf8.allSatisfy { (0x20...0x7E).contains($0) }
    }

    /// Clients that follow draft-ietf-httpapi-idempotency-key-header put quotes around the key.
    private static func unquoted(_ header: String) -> String {
        let isQuoted = header.utf8.count >= 2 && header.hasPrefix("\"") && header.hasSuffix("\"")
        return isQuoted ? String(header.dropFirst().dropLast()) : header
    }

    private mutating func driverID() -> String? {
        if route == .v1Session || route == .v1PreSession { return nil }
        if route == .service { members.require("driver_id", "is required of a service") }
        return members.text("driver_id")
    }

    private mutating func sessionID() -> String? {
        switch route {
        case .native, .service: break
        case .v1Session: members.require("session_id", "is required on this route")
        case .v1PreSession:
            if members.value("session_id") != nil { members.refuse("session_id", "must be absent on this route") }
        }
        return members.text("session_id")
    }

    private mutating func event() -> (name: EventName, spelling: String)? {
        members.require("event")
        guard let spelling = members.text("event", "must be a string", where: { _ in true }) else { return nil }
        do {
            let hasSession = members.value("session_id") != nil
            return (try EventName(spelling: spelling, hasSession: hasSession), spelling)
        } catch {
            members.note(error)
            return nil
        }
    }

    // MARK: Times

    private mutating func moment(_ name: String, isRequired: Bool) -> (moment: Moment, text: String)? {
        if isRequired { members.require(name) }
        var moment: Moment?
        let rule = "must be an RFC 3339 date-time with an offset"
        let text = members.text(name, rule) { text in
            moment = Self.moment(of: text)
            return moment != nil
        }
        guard let moment, let text else { return nil }
        return (moment, text)
    }

    /// A client sets X-Sent-At anew for each attempt, but `timestamp` only for the first attempt.
    private mutating func sendTimes() -> (sentAt: Moment?, timestamp: Moment?) {
        let timestamp = moment("timestamp", isRequired: route == .v1Session || route == .v1PreSession)?.moment
        guard let header = headers.sentAt else { return (nil, timestamp) }
        let sentAt = Self.moment(of: header)
        if sentAt == nil {
            members.note(
                FieldError(
                    pointer: "X-Sent-At", detail: "must be an RFC 3339 date-time with an offset"))
        }
        return (sentAt, timestamp)
    }

    /// Returns nil if the text is not a valid time or is longer than 64 bytes. The text is stored as sent, and RFC 3339
    /// allows any number of digits in a fraction.
    private static func moment(of text: String) -> Moment? {
        text.utf8.count <= 64 ? RFC3339.moment(from: text) : nil
    }

    // MARK: Other members

    private mutating func source() -> String {
        let source = members.text("source") ?? (route == .service ? "web" : "ios_native")
        if source == "server" { members.refuse("source", "must not be server, which is reserved") }
        return source
    }

    private mutating func appState() -> String? {
        members.text("app_state", "must be foreground or background") { $0 == "foreground" || $0 == "background" }
    }

    private mutating func sequence() -> Int64? {
        guard let value = members.value("sequence") else { return nil }
        if case .number(let text) = value, let sequence = WholeNumber.read(text), sequence >= 0 { return sequence }
        members.refuse("sequence", "must be an integer from 0 to \(Int64.max)")
        return nil
    }

    private mutating func metadata() -> (value: JSONValue, compact: String)? {
        guard let value = members.value("metadata") else { return nil }
        guard case .object = value else {
            members.refuse("metadata", "must be a JSON object")
            return nil
        }
        let compact = value.compact
        guard compact.utf8.count <= EventSubmission.metadataBytesMax else {
            members.refuse("metadata", "must be at most \(EventSubmission.metadataBytesMax) bytes of compact JSON")
            return nil
        }
        return (value, compact)
    }
}
