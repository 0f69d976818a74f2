// What survives the app's death. An app stores the snapshot after each input that had outputs; an engine restored
// from it has the same state.

public import JourneyModel

/// The engine's complete state.
///
/// Contains coordinates of the last position and of the places; keep it where the app keeps its private data.
public struct Snapshot: Sendable {
    var engine: SessionEngine

    /// Version of the form that `encoded` writes; `init(decoding:)` rejects others.
    static let version = "1"
}

/// Why stored bytes are not a snapshot. Start with a fresh engine then; the server's journey corrects itself at the
/// next arrival.
public enum SnapshotError: Error, Hashable, Sendable {
    /// Not a JSON object, or one of a version unknown to this library.
    case unreadable
    /// The first member that is missing, malformed or out of range.
    case malformed(member: String)
    /// Members that contradict each other, such as SESSION_ACTIVE without a session.
    case inconsistent
}

extension SessionEngine {
    public var snapshot: Snapshot { Snapshot(engine: self) }

    /// The restored engine, brought up to `now`, and what to do; all timers and geofences are output again.
    ///
    /// In this order: deadlines that passed in between end the session, with the event at the deadline's own
    /// moment; a session still in progress is reported with `sessionRestored`; then `fix`, the present position, is
    /// handled like any fix: the anchor may be lost, the charger departed from, the zone left, or the phone so far
    /// away that the session ends. A fix taken before a deadline counts before it. Without a usable fix one is
    /// requested, and the snapshot's state remains until it arrives.
    public static func restored(
        from snapshot: Snapshot, at now: Moment, fix: LocationFix? = nil
    ) -> (engine: SessionEngine, outputs: [EngineOutput]) {
        var engine = snapshot.engine
        engine.forgetWhatIsWatched()
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
