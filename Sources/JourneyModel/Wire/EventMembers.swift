// The members of one event, stored by name while the parser reads them.

/// The names of the members that the server itself uses, in the order of the table of fields (contract, section 3). The
/// members that only describe an event are declared in `EventDetail`.
enum EventMemberName: Int, CaseIterable {
    case schemaVersion, eventID, idempotencyKey, driverID, sessionID, chargerID, merchantID, event, occurredAt,
        timestamp,
        source, appState, sequence, metadata

    init?(_ utf8: UnsafeBufferPointer<UInt8>) {
        // At most one known name has this length and this first letter. The comparison below decides whether the member
        // really has that name.
        let candidate: EventMemberName
        switch (utf8.count, utf8.first) {
        case (14, _): candidate = .schemaVersion
        case (8, UInt8(ascii: "e")): candidate = .eventID
        case (15, _): candidate = .idempotencyKey
        case (10, UInt8(ascii: "s")): candidate = .sessionID
        case (10, _): candidate = .chargerID
        case (11, UInt8(ascii: "m")): candidate = .merchantID
        case (5, _): candidate = .event
        case (11, _): candidate = .occurredAt
        case (9, UInt8(ascii: "t")): candidate = .timestamp
        case (9, UInt8(ascii: "d")): candidate = .driverID
        case (6, _): candidate = .source
        case (9, _): candidate = .appState
        case (8, UInt8(ascii: "s")): candidate = .sequence
        case (8, _): candidate = .metadata
        default: return nil
        }
        let isSame = candidate.text.withUTF8Buffer { text in
            text.indices.allSatisfy { text[$0] == utf8[$0] }
        }
        guard isSame else { return nil }
        self = candidate
    }

    /// The JSON Pointer from the event to the member.
    var pointer: String {
        "/\(text)"
    }

    /// The name on the wire.
    var text: StaticString {
        switch self {
        case .schemaVersion: "schema_version"
        case .eventID: "event_id"
        case .idempotencyKey: "idempotency_key"
        case .driverID: "driver_id"
        case .sessionID: "session_id"
        case .chargerID: "charger_id"
        case .merchantID: "merchant_id"
        case .event: "event"
        case .occurredAt: "occurred_at"
        case .timestamp: "timestamp"
        case .source: "source"
        case .appState: "app_state"
        case .sequence: "sequence"
        case .metadata: "metadata"
        }
    }
}

/// The value of one member. The buffers in the value are valid as long as the parser's bytes are valid.
enum EventMember {
    /// The member is missing, or it is `null`.
    case absent
    case text(JSONText)
    case number(UnsafeBufferPointer<UInt8>)
    /// An object. `compact` has the source bytes of the object if they are compact JSON already; otherwise it is nil.
    case object(JSONValue, compact: UnsafeBufferPointer<UInt8>?)
    case truth(Bool)
    /// Any other value.
    case other
}

/// The members of the event that have a known name. Other members are skipped.
struct EventMembers {
    /// The declared details. `detailValues` has the value of each detail at the same index. If the event has no
    /// details, `detailValues` is empty.
    let details: [EventDetail]
    private(set) var detailValues: [EventMember] = []
    private(set) var isObject = true
    private var values: [EventMember]
    /// One bit for each known name that was read already, to detect duplicates.
    private var seen: UInt16 = 0

    /// Reads the whole event that begins at the parser's offset. The event lies inside `depth` arrays and objects.
    init(_ parser: inout JSONParser, depth: Int, details: [EventDetail]) throws(JSONError) {
        self.details = details
        values = []
        guard parser.startOfValue() == UInt8(ascii: "{") else {
            _ = try parser.value(depth: depth)
            isObject = false
            return
        }
        values = Array(repeating: .absent, count: EventMemberName.allCases.count)
        var (unknown, names) = ([String](), JSONNames())
        try parser.list(from: UInt8(ascii: "{"), to: UInt8(ascii: "}")) { parser throws(JSONError) in
            let start = try parser.startOfName()
            let text = try parser.text()
            if let name = EventMemberName(text) {
                let bit = UInt16(1) << UInt16(truncatingIfNeeded: name.rawValue)
                if seen & bit != 0 { parser.refuse(.duplicateName, at: start) }
                seen |= bit
                try parser.endOfName()
                values[name.rawValue] = try parser.eventMember(depth: depth + 1)
            } else {
                let name = text.string
                if !names.isNew(name, after: unknown) { parser.refuse(.duplicateName, at: start) }
                unknown.append(name)
                try parser.endOfName()
                note(try parser.eventMember(depth: depth + 1), named: name)
            }
        }
    }

    private mutating func note(_ value: EventMember, named name: String) {
        guard let index = details.firstIndex(where: { haveSameBytes($0.name, name) }) else { return }
        if detailValues.isEmpty { detailValues = Array(repeating: .absent, count: details.count) }
        detailValues[index] = value
    }

    subscript(name: EventMemberName) -> EventMember { values[name.rawValue] }

    func has(_ name: EventMemberName) -> Bool {
        if case .absent = values[name.rawValue] { false } else { true }
    }
}

extension EventMemberName {
    fileprivate init?(_ name: JSONText) {
        switch name {
        case .printable(let bytes): self.init(bytes)
        case .made(var text):
            guard let known = text.withUTF8({ EventMemberName($0) }) else { return nil }
            self = known
        }
    }
}

extension JSONParser {
    /// Reads the value of one member, without creating a String that may not be needed.
    fileprivate mutating func eventMember(depth: Int) throws(JSONError) -> EventMember {
        switch startOfValue() {
        case UInt8(ascii: "\""): return .text(try text())
        case UInt8(ascii: "{"):
            let start = offset
            isCompact = true
            let value = try value(depth: depth)
            return .object(
                value, compact: isCompact ? UnsafeBufferPointer(rebasing: bytes[start..<offset]) : nil)
        case UInt8(ascii: "t"), UInt8(ascii: "f"):
            guard case .bool(let truth) = try value(depth: depth) else { return .other }
            return .truth(truth)
        case UInt8(ascii: "["):
            _ = try value(depth: depth)
            return .other
        case UInt8(ascii: "n"):
            _ = try value(depth: depth)
            return .absent
        default: return .number(try numberText())
        }
    }
}
