// Decodes the JSON of one event into an EventSubmission, or throws all errors at once (contract, section 3).

/// The routes that accept events. They differ in the members that they require, accept and ignore.
public enum EventRoute: Hashable, Sendable, CaseIterable {
    /// `POST /native/events` and its batch.
    case native
    /// The same routes, called by a service. `driver_id` is required. The stored idempotency key begins with
    /// `EventSubmission.servicePrefix`.
    case service
    /// `POST /v1/native/session-events`: `session_id` required.
    case v1Session
    /// `POST /v1/native/pre-session-events`: `session_id` rejected.
    case v1PreSession

    var requiresTimestamp: Bool {
        switch self {
        case .native, .service: false
        case .v1Session, .v1PreSession: true
        }
    }
}

/// The values of the header fields that concern an event, without surrounding white space. A value is nil if the
/// request does not have the field.
public struct EventHeaders: Hashable, Sendable {
    public var idempotencyKey: String?
    public var sentAt: String?

    public init(idempotencyKey: String? = nil, sentAt: String? = nil) {
        self.idempotencyKey = idempotencyKey
        self.sentAt = sentAt
    }

    static let idempotencyKeyName = "Idempotency-Key"
    static let sentAtName = "X-Sent-At"
}

extension EventSubmission {
    /// Maximum bytes of `metadata` as compact JSON.
    public static let metadataBytesMax = 8 * 1024

    /// Decodes the body of a request that carries one event.
    ///
    /// - Parameter details: the optional members that only describe an event. They are read in addition to the members
    ///   in `EventMemberName`. All other members are skipped.
    public static func decode(
        _ body: [UInt8], route: EventRoute, headers: EventHeaders = EventHeaders(),
        details: [EventDetail] = EventDetail.all
    ) throws(BodyRefusal) -> EventSubmission {
        try body.withUnsafeBufferPointer { bytes throws(BodyRefusal) in
            var parser = JSONParser(bytes)
            let members: EventMembers
            do throws(JSONError) {
                members = try EventMembers(&parser, depth: 0, details: details)
                try parser.end()
                if let refusal = parser.refusal { throw refusal }
            } catch {
                throw .malformedJSON(error)
            }
            do throws(InvalidFields) {
                return try EventSubmission(members, route: route, headers: headers)
            } catch {
                throw .invalid(error)
            }
        }
    }

    /// Decodes one event. The parser's bytes must be valid during the call. The JSON Pointers of errors begin at the
    /// event, even if the event is in a batch.
    init(_ members: EventMembers, route: EventRoute, headers: EventHeaders) throws(InvalidFields) {
        var reader = EventReader(members, route: route, headers: headers)
        self = try reader.submission()
    }
}
