// What survives the app's death. An app stores the snapshot after each input that had outputs; the engine that is
// restored from it knows what that one knew.

public import JourneyModel

/// All that the engine knows, at rest.
///
/// Holds coordinates of the last position and of the places; keep it where the app keeps its private data.
public struct Snapshot: Sendable {
    var engine: SessionEngine

    /// Of the form that `encoded` writes; another is refused by `init(decoding:)`.
    static let version = "1"
}

/// Why stored bytes are no snapshot. Start with a fresh engine then; the server's journey corrects itself at the
/// next arrival.
public enum SnapshotError: Error, Hashable, Sendable {
    /// No JSON object, or one of a version that this library does not know.
    case unreadable
    /// The first member that is missing, malformed or out of range.
    case malformed(member: String)
    /// Members that cannot be true together, such as SESSION_ACTIVE without a session.
    case inconsistent
}

extension SessionEngine {
    public var snapshot: Snapshot { Snapshot(engine: self) }

    /// The engine as it was, brought up to `now`, and what to do; all timers and geofences are told anew.
    ///
    /// In this order: deadlines that passed in between end the session, with the event at the deadline's own moment;
    /// a session still in progress is reported with `sessionRestored`; then `fix`, the position at present, is
    /// followed as any fix is: the anchor may be lost, the charger departed from, the zone left, or the phone so far
    /// away that the session ends. A fix taken before a deadline counts before it. Without a usable fix one is asked
    /// for, and whatever state the snapshot had holds until it comes.
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
