// The stored state of an engine, from which the engine is restored after the app was terminated. The app stores the
// snapshot after each input, even if the input had no outputs (SessionEngine).

public import JourneyModel

/// The engine's complete state.
///
/// The snapshot contains the coordinates of the last position, the charger and the merchant. Keep it where the app
/// keeps its private data.
public struct Snapshot: Sendable {
    var engine: SessionEngine

    /// Version of the format that `encoded` writes. `init(decoding:)` rejects other versions.
    static let version = "1"
}

/// The reason why stored bytes are not a snapshot. The app then starts with a new engine, whose journey is in IDLE. The
/// server's journey may be in another state. When the phone next arrives at a charger, the engine's events bring both
/// journeys into the same state.
public enum SnapshotError: Error, Hashable, Sendable {
    /// The bytes are not a JSON object, or are a snapshot of a version unknown to this library.
    case unreadable
    /// A member is missing, malformed or out of range. `member` is the first such member.
    case malformed(member: String)
    /// Members contradict each other, for example SESSION_ACTIVE without a session.
    case inconsistent
}

extension SessionEngine {
    public var snapshot: Snapshot { Snapshot(engine: self) }

    /// Returns the engine as it is at `now`, and its outputs. The outputs set all timers and geofences again.
    ///
    /// There are three steps:
    ///
    /// 1. A deadline that passed since the snapshot ends the session, with an event at the time of the deadline.
    /// 2. If a session is still in progress, it is reported with `sessionRestored`.
    /// 3. The present position `fix` is handled like any other fix. It may cause a lost anchor, a departure, an exit
    ///    from the zone, or a jump that ends the session.
    ///
    /// If the fix was taken before a deadline, it is handled before that deadline.
    ///
    /// The position that a platform has at launch is often hours old. If the engine has a charger, the outputs
    /// therefore request a new fix when `fix` is missing, is not usable, or was taken more than a minute before `now`.
    public static func restored(
        from snapshot: Snapshot, at now: Moment, fix: LocationFix? = nil
    ) -> (engine: SessionEngine, outputs: [EngineOutput]) {
        var engine = snapshot.engine
        engine.clearWatchedPlaces()
        engine.noticeClock(at: now)
        let usableFix = fix.flatMap { $0.isUsable(by: engine.settings) ? $0 : nil }
        let resumedAt = engine.moment(of: min(usableFix?.at ?? now, now))
        engine.expireDeadlines(before: resumedAt)
        if let sessionID = engine.sessionID {
            engine.emit(
                .sessionRestored, at: resumedAt, sessionID: sessionID,
                metadata: [JSONMember("state", .string(engine.state.rawValue))])
        }
        if let usableFix { engine.take([usableFix], at: now) }
        let isPresent = usableFix.map { now <= $0.at.advanced(bySeconds: SessionEngine.fixAgeSecondsMax) } ?? false
        if engine.charger != nil, !isPresent { engine.put(.requestFix) }
        engine.expireDeadlines(upTo: now)
        let outputs = engine.finish()
        return (engine, outputs)
    }
}
