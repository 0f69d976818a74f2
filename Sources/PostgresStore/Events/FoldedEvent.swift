// One event of a driver as the fold keeps it in memory: read from the table, or about to be inserted.

import Engine
import JourneyModel

struct FoldedEvent: Sendable {
    /// Values that only a new event has.
    struct Unsaved: Sendable {
        var append: PreparedAppend
        var clock: ClockCorrection
        var settingsVersion: String
    }

    /// Counts the driver's events in the order of arrival.
    var seq: Int64
    var event: OrderedEvent
    var verdict = Verdict.none
    /// The journey after this event.
    var after = Journey()
    /// The event's index among the driver's events of the same second. Nil if the event's time has a fraction of a
    /// second.
    var secondPlace: Int64?
    /// The session in progress that this event closed without SESSION_ENDED (`Journey.closing`).
    var closedSessionID: String?
    /// The version of the settings with which a stored event is folded. After a correction, it may differ from
    /// `storedVersion`. Nil for a new event.
    var settingsVersion: String?
    /// The version of the settings with which the event was stored. For a new event, this property and `receivedAt` are
    /// nil.
    var storedVersion: String?
    var receivedAt: Moment?
    /// Whether a correction has given this stored event other settings in the current refold.
    var isCorrected = false
    /// Nil for a stored event.
    var unsaved: Unsaved?
    /// Whether the fold has changed a stored event: its verdict, journey, closed session or place in its second.
    var isChanged = false

    /// Whether the event arrived after the first `OrderWithinSecond.searchedMax` events of its second. The fold orders
    /// only those first events. The others follow in the order of arrival.
    var isBehindSearch: Bool { secondPlace.map { $0 >= OrderWithinSecond.searchedMax } ?? false }

    mutating func apply(to before: Journey) {
        after = before
        verdict = after.apply(event)
        closedSessionID = before.closing(by: after) == nil ? nil : before.sessionID
    }
}
