// A journey with the row numbers of the sessions and chargers that it names. The fold needs their ids, and the tables
// need their row numbers. With both at hand, neither has to be looked up.

import Engine
import JourneyModel

struct StoredJourney {
    var journey = Journey()
    /// Row numbers in `session` and `place`.
    var session: Int64?
    var targetCharger: Int64?
    var nextTargetCharger: Int64?
    var previousSession: Int64?

    init() {}

    /// Reads twelve columns from `first` on, in this order:
    ///
    /// - state
    /// - session, target and next target, each as row number and text
    /// - grace deadline and hard deadline
    /// - why the session ended
    /// - the previous session as row number and text
    init(_ columns: borrowing Columns, at first: Int32) throws(SQLiteError) {
        guard let state = JourneyState(code: columns.integer(first)) else {
            throw SQLiteError.unreadable("state")
        }
        session = columns.optionalInteger(first + 1)
        targetCharger = columns.optionalInteger(first + 3)
        nextTargetCharger = columns.optionalInteger(first + 5)
        previousSession = columns.optionalInteger(first + 10)
        journey = Journey(
            state: state,
            sessionID: session == nil ? nil : columns.optionalText(first + 2),
            targetChargerID: targetCharger == nil ? nil : columns.optionalText(first + 4),
            nextTargetChargerID: nextTargetCharger == nil ? nil : columns.optionalText(first + 6),
            graceDeadline: columns.optionalInteger(first + 7).map(Moment.init(millisecondsSinceEpoch:)),
            hardDeadline: columns.optionalInteger(first + 8).map(Moment.init(millisecondsSinceEpoch:)),
            endedBy: columns.optionalInteger(first + 9).flatMap(Journey.Ending.init(code:)),
            previousSessionID: previousSession == nil ? nil : columns.optionalText(first + 11))
    }

    /// Binds eight parameters from `first` on: state, session, target, next target, grace deadline, hard deadline, why
    /// the session ended, previous session. A deadline is bound as its milliseconds since `origin`.
    func bind(
        to bindings: borrowing Bindings, at first: Int32, since origin: Moment = Moment(millisecondsSinceEpoch: 0)
    ) throws(SQLiteError) {
        try bindings.set(first, journey.state.code)
        try bindings.set(first + 1, session)
        try bindings.set(first + 2, targetCharger)
        try bindings.set(first + 3, nextTargetCharger)
        try bindings.set(first + 4, journey.graceDeadline?.milliseconds(since: origin))
        try bindings.set(first + 5, journey.hardDeadline?.milliseconds(since: origin))
        try bindings.set(first + 6, journey.endedBy?.code)
        try bindings.set(first + 7, previousSession)
    }
}

extension Verdict {
    /// Reads three columns from `first` on: transition, reason, implied.
    init(_ columns: borrowing Columns, at first: Int32) throws(SQLiteError) {
        guard let transition = Transition(code: columns.integer(first)) else {
            throw SQLiteError.unreadable("transition")
        }
        self.init(
            transition, reason: columns.optionalInteger(first + 1).flatMap(Reason.init(code:)),
            implied: ImpliedSteps(code: columns.integer(first + 2)) ?? [])
    }

    func bind(to bindings: borrowing Bindings, at first: Int32) throws(SQLiteError) {
        try bindings.set(first, transition.code)
        try bindings.set(first + 1, reason?.code)
        try bindings.set(first + 2, implied.code)
    }
}
