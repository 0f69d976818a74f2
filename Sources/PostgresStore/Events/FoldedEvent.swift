// One event of a driver as the fold keeps it in memory: read from the table, or about to be inserted.

import Engine
import JourneyModel

struct FoldedEvent: Sendable {
    /// Values that only a new event has, because its row is not yet stored.
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
    /// The event's index among the events that share its second (`sharesSecond`). Nil for an event with a fraction of a
    /// second.
    var secondPlace: Int64?
    /// The session in progress that this event closed without ending it.
    var closedSessionID: String?
    /// The version of the settings with which a stored event is folded; nil for a new event.
    var settingsVersion: String?
    /// The version of the settings with which the event was stored, and when it was received; nil for a new event.
    var storedVersion: String?
    var receivedAt: Moment?
    /// Whether a correction has replaced the settings with which a stored event is folded.
    var isCorrected = false
    /// Nil for a stored event.
    var unsaved: Unsaved?
    /// Whether the fold gave a stored event another verdict, journey or place than its row has.
    var isChanged = false

    /// Whether at least `OrderWithinSecond.searchedMax` events with the same second arrived before this event. Such an
    /// event is not reordered, and keeps its place after those events.
    var isBehindSearch: Bool { secondPlace.map { $0 >= OrderWithinSecond.searchedMax } ?? false }

    /// Sets the verdict and the journey after this event. `before` is the journey right before it.
    mutating func apply(to before: Journey) {
        after = before
        verdict = after.apply(event)
        closedSessionID = before.closing(by: after) == nil ? nil : before.sessionID
    }
}
