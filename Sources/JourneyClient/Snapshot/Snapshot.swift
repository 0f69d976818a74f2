// The stored state of an engine, from which it is restored after the app was terminated. The app stores the snapshot
// after each input that had outputs.

public import JourneyModel

/// The engine's complete state.
///
/// Contains coordinates of the last position and of the places; keep it where the app keeps its private data.
public struct Snapshot: Sendable {
    var engine: SessionEngine

    /// Version of the form that `encoded` writes; `init(decoding:)` rejects others.
    static let version = "1"
}

/// Why stored bytes are not a snapshot. The app then starts with a new engine; the server corrects its journey at the
/// phone's next arrival.
public enum SnapshotError: Error, Hashable, Sendable {
    /// Not a JSON object, or a snapshot of a version unknown to this library.
    case unreadable
    /// The first member that is missing, malformed or out of range.
    case malformed(member: String)
    /// Members that contradict each other, such as SESSION_ACTIVE without a session.
    case inconsistent
}

extension SessionEngine {
    public var snapshot: Snapshot { Snapshot(engine: self) }

    /// Returns the restored engine, brought up to `now`, and its outputs, which set all timers and geofences again.
    ///
    /// First, deadlines that passed in between end the session, each with an event at the deadline's own time. Second,
    /// a session still in progress is reported with `sessionRestored`. Third, `fix`, the present position, is handled
    /// like any other fix: it may report a lost anchor, a departure, an exit from the zone, or a jump that ends the
    /// session. A fix taken before a deadline is handled before that deadline. Without a usable fix, one is requested,
    /// and the state remains that of the snapshot until a fix arrives.
    public static func restored(
        from snapshot: Snapshot, at now: Moment, fix: LocationFix? = nil
    ) -> (engine: SessionEngine, outputs: [EngineOutput]) {
        var engine = snapshot.engine
        engine.clearWatchedPlaces()
        let usableFix = fix.flatMap { $0.isUsable(by: engine.settings) ? $0 : nil }
        let resumedAt = engine.moment(of: min(usableFix?.at ?? now, now))
        engine.expireDeadlines(before: resumedAt)
        if let sessionID = engine.sessionID {
            engine.emit(
                .sessionRestored, at: resumedAt, sessionID: sessionID,
                metadata: [JSONMember("state", .string(engine.state.rawValue))])
        }
        if let usableFix {
            engine.take([usableFix], at: now)
        } else if engine.charger != nil {
            engine.put(.requestFix)
        }
        engine.expireDeadlines(upTo: now)
        let outputs = engine.finish()
        return (engine, outputs)
    }
}
