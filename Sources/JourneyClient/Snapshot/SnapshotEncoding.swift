// Writes a snapshot as JSON. Coordinates and other decimal numbers are written with the fewest digits that give the
// same Double when they are read.

import JourneyModel

extension Snapshot {
    /// Returns one JSON object, to be stored unchanged.
    public func encoded() -> [UInt8] {
        var writer = JSONWriter(reservingBytes: 1024)
        writer.value(json)
        return writer.bytes
    }

    private var json: JSONValue {
        let journey = engine.journey
        return .members([
            ("version", .string(Self.version)),
            ("settings", engine.settings.json),
            ("state", .string(journey.state.rawValue)),
            ("session_id", journey.sessionID.map(JSONValue.string)),
            ("target_charger_id", journey.targetChargerID.map(JSONValue.string)),
            ("next_target_charger_id", journey.nextTargetChargerID.map(JSONValue.string)),
            ("grace_deadline", journey.graceDeadline?.json),
            ("hard_deadline", journey.hardDeadline?.json),
            ("ended_by", (journey.endedBy?.rawValue).map(JSONValue.string)),
            ("previous_session_id", journey.previousSessionID.map(JSONValue.string)),
            ("charger", engine.charger?.json),
            ("next_charger", engine.nextCharger?.json),
            ("merchant", engine.merchant?.json),
            ("dwell_since", engine.dwell.stay?.since.json),
            ("dwell_last", engine.dwell.stay?.last.json),
            ("dwell_arrived_at", engine.dwell.arrivedAt?.json),
            ("last_fix", engine.lastFix?.json),
            ("last_event_at", engine.lastEventAt?.json),
            ("next_sequence", .number(String(engine.nextSequence))),
            ("ended_session_id", engine.endedSessionID.map(JSONValue.string)),
            ("may_reenter", .bool(engine.mayReenter)),
            ("zone_crossed_at", engine.zoneCrossedAt?.json),
        ])
    }
}

extension JSONValue {
    fileprivate static func members(_ members: [(String, JSONValue?)]) -> JSONValue {
        .object(members.compactMap { name, value in value.map { JSONMember(name, $0) } })
    }

    fileprivate static func double(_ number: Double) -> JSONValue {
        .number("\(number)")
    }
}

extension Moment {
    fileprivate var json: JSONValue { .number(String(millisecondsSinceEpoch)) }
}

extension Coordinate {
    fileprivate var members: [(String, JSONValue?)] {
        [("latitude", .double(latitudeDegrees)), ("longitude", .double(longitudeDegrees))]
    }
}

extension Place {
    fileprivate var json: JSONValue { .members([("id", .string(id.text))] + coordinate.members) }
}

extension LocationFix {
    /// The fix as JSON. Only usable fixes are stored, so the accuracy is always a finite number. JSON cannot represent
    /// an infinite speed, so an infinite speed is stored as unknown.
    fileprivate var json: JSONValue {
        let speed = speedMetersPerSecond.flatMap { $0.isFinite ? JSONValue.double($0) : nil }
        return .members(
            coordinate.members + [
                ("accuracy_m", .double(horizontalAccuracyMeters)), ("speed_mps", speed), ("at", at.json),
            ])
    }
}

extension Settings {
    /// The settings as a JSON object with the members of `GET /native/config`.
    fileprivate var json: JSONValue {
        .members(Self.declarations.map { ($0.field, .number($0.text(in: self))) })
    }
}
