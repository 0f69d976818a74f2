// A snapshot is the stored state of a session engine. After the app was terminated, the engine is restored from it.

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

/// The reason why stored bytes are not a valid snapshot. After this error, the app starts with a new engine in IDLE. If
/// the server's journey is in another state, the next arrival at a charger makes the two states equal again.
public enum SnapshotError: Error, Hashable, Sendable {
    /// The bytes are not a JSON object, or their `version` is missing or unknown to this library.
    case unreadable
    /// A member is missing, malformed or out of range. `member` is the name of the first such member.
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
    /// 1. If a deadline has passed since the snapshot, the session ends. An event with the deadline's time reports the
    ///    end.
    /// 2. If a session is still in progress, it is reported with `sessionRestored`.
    /// 3. The position `fix` is handled like any other fix.
    ///
    /// Exception to step 1: a deadline that passed after `fix` was taken is applied only after step 3.
    ///
    /// If the engine has a charger, and `fix` is missing, unusable or more than a minute old, the outputs request a new
    /// fix. At launch, the position that a platform returns is often hours old.
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
