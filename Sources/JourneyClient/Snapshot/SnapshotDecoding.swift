// Reads a snapshot from stored bytes. The bytes may be damaged or written by another release. All members are therefore
// checked, so that an engine starts only in a state that events can produce.

import JourneyModel

extension Snapshot {
    /// Reads the JSON that `encoded` writes. Ignores unknown members.
    public init(decoding bytes: [UInt8]) throws(SnapshotError) {
        guard let json = try? JSONValue.parse(bytes), json["version"]?.text == Self.version else { throw .unreadable }
        var reader = SnapshotReader(json: json)
        let engine = reader.engine()
        if let member = reader.malformed { throw .malformed(member: member) }
        guard engine.isConsistent else { throw .inconsistent }
        self.init(engine: engine)
    }
}

private struct SnapshotReader {
    let json: JSONValue
    var malformed: String?

    mutating func engine() -> SessionEngine {
        var engine = SessionEngine(settings: required("settings", Settings.init(configJSON:)) ?? Settings())
        engine.journey = Journey(
            state: required("state", { $0.text.flatMap(JourneyState.init(rawValue:)) }) ?? .idle,
            sessionID: optional("session_id", \.identifier)?.text,
            targetChargerID: optional("target_charger_id", \.identifier)?.text,
            nextTargetChargerID: optional("next_target_charger_id", \.identifier)?.text,
            graceDeadline: optional("grace_deadline", \.moment), hardDeadline: optional("hard_deadline", \.moment),
            endedBy: optional("ended_by", { $0.text.flatMap(Journey.Ending.init(rawValue:)) }),
            previousSessionID: optional("previous_session_id", \.identifier)?.text)
        engine.charger = optional("charger", \.place)
        engine.nextCharger = optional("next_charger", \.place)
        engine.merchant = optional("merchant", \.place)
        if let since = optional("dwell_since", \.moment), let last = optional("dwell_last", \.moment) {
            engine.dwell.stay = DwellDetector.Stay(since: since, last: last)
        }
        engine.dwell.arrivedAt = optional("dwell_arrived_at", \.moment)
        engine.lastFix = optional("last_fix", \.fix)
        engine.lastEventAt = optional("last_event_at", \.moment)
        engine.nextSequence = required("next_sequence", { $0.integer.flatMap { $0 >= 0 ? $0 : nil } }) ?? 0
        engine.endedSessionID = optional("ended_session_id", \.identifier)?.text
        engine.mayReenter = required("may_reenter", \.flag) ?? false
        engine.zoneCrossedAt = optional("zone_crossed_at", \.moment)
        return engine
    }

    private mutating func required<Value>(_ name: String, _ read: (JSONValue) -> Value?) -> Value? {
        if let value = json[name].flatMap(read) { return value }
        malformed = malformed ?? name
        return nil
    }

    private mutating func optional<Value>(_ name: String, _ read: (JSONValue) -> Value?) -> Value? {
        json[name] == nil ? nil : required(name, read)
    }
}

extension SessionEngine {
    /// Whether the engine's members fit its state. A charger or a merchant is also allowed in states that do not
    /// require one.
    fileprivate var isConsistent: Bool {
        let runsGrace = journey.graceDeadline != nil
        let runsHard = journey.hardDeadline != nil
        let hasSession = journey.sessionID != nil
        return switch state {
        case .idle: !runsGrace && !runsHard && !hasSession
        case .nearCharger, .anchored: !runsGrace && !runsHard && !hasSession && charger != nil
        case .sessionActive: !runsGrace && runsHard && hasSession && charger != nil && merchant != nil
        case .inTransit: runsGrace && runsHard && hasSession && merchant != nil
        case .atMerchant: !runsGrace && runsHard && hasSession && merchant != nil
        case .sessionEnded: !runsGrace && !runsHard && (hasSession || endedSessionID != nil)
        }
    }
}

extension JSONValue {
    fileprivate var flag: Bool? {
        if case .bool(let flag) = self { flag } else { nil }
    }

    fileprivate var identifier: Identifier? { text.flatMap(Identifier.init) }

    fileprivate var moment: Moment? { integer.map(Moment.init(millisecondsSinceEpoch:)) }

    private var coordinate: Coordinate? {
        guard let latitude = self["latitude"]?.double, let longitude = self["longitude"]?.double else { return nil }
        return Coordinate(latitudeDegrees: latitude, longitudeDegrees: longitude)
    }

    fileprivate var place: Place? {
        guard let id = self["id"]?.identifier, let coordinate else { return nil }
        return Place(id: id, coordinate: coordinate)
    }

    fileprivate var fix: LocationFix? {
        guard let coordinate, let accuracy = self["accuracy_m"]?.double, let at = self["at"]?.moment else { return nil }
        return LocationFix(
            coordinate: coordinate, horizontalAccuracyMeters: accuracy, speedMetersPerSecond: self["speed_mps"]?.double,
            at: at)
    }
}
