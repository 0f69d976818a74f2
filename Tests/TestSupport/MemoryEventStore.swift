// A simple `EventStore` in memory that passes the contract's clauses. At every append, it folds all events of the
// driver again. A store with a different result is wrong.

package import Engine
package import JourneyModel
import Synchronization

package final class MemoryEventStore: EventStore {
    fileprivate struct Stored {
        var placed: OrderedEvent
        var submission: EventSubmission
        var verdict: Verdict
    }

    fileprivate struct Driver {
        /// The events in the order of arrival.
        var events: [Stored] = []
        var clockMemory = ClockMemory()
        var journey = Journey()
    }

    private struct Session {
        var driver: DriverID
        var isRegistered: Bool
    }

    private struct State {
        var drivers: [DriverID: Driver] = [:]
        var sessions: [String: Session] = [:]
        var failure: StoreFailure?
    }

    private let state = Mutex(State())

    package init() {}

    /// From now on, every call fails with `failure`. With nil, calls succeed again.
    package func fail(with failure: StoreFailure?) {
        state.withLock { $0.failure = failure }
    }

    package var eventCount: Int {
        state.withLock { state in state.drivers.values.reduce(0) { $0 + $1.events.count } }
    }

    package func append(_ request: AppendRequest) async -> EventOutcome {
        state.withLock { state in Self.append(request, to: &state) }
    }

    package func append(_ requests: [AppendRequest]) async -> [EventOutcome] {
        state.withLock { state in requests.map { Self.append($0, to: &state) } }
    }

    package func lookUp(
        _ submission: EventSubmission, of driver: DriverID
    ) async throws(StoreFailure) -> EventOutcome? {
        try state.withLock { state -> Result<EventOutcome?, StoreFailure> in
            if let failure = state.failure { return .failure(failure) }
            return .success(state.drivers[driver].flatMap { Self.repeated(submission, of: $0) })
        }.get()
    }

    package func lookUp(
        _ submissions: [EventSubmission], of driver: DriverID
    ) async throws(StoreFailure) -> [EventOutcome?] {
        var outcomes: [EventOutcome?] = []
        for submission in submissions { outcomes.append(try await lookUp(submission, of: driver)) }
        return outcomes
    }

    package func register(_ registration: SessionRegistration) async throws(StoreFailure) -> RegistrationOutcome {
        try state.withLock { state -> Result<RegistrationOutcome, StoreFailure> in
            if let failure = state.failure { return .failure(failure) }
            let known = state.sessions[registration.sessionID]
            if let known, known.driver != registration.driver { return .success(.sessionNotFound) }
            state.sessions[registration.sessionID] = Session(driver: registration.driver, isRegistered: true)
            return .success(known == nil ? .created : .existed)
        }.get()
    }

    private static func repeated(_ submission: EventSubmission, of driver: Driver) -> EventOutcome? {
        guard let stored = driver.events.first(where: { $0.placed.idempotencyKey == submission.idempotencyKey })
        else { return nil }
        let (form, sent) = (stored.submission.canonicalForm, stored.submission)
        let isRepeat =
            form == submission.canonicalForm
            || form == submission.canonicalForm(appState: sent.appState, schemaVersion: sent.schemaVersion)
        guard isRepeat else { return .keyReused }
        return .replayed(
            StoredEvent(eventID: stored.placed.eventID, verdict: stored.verdict, journey: driver.journey))
    }

    private static func append(_ request: AppendRequest, to state: inout State) -> EventOutcome {
        if let failure = state.failure { return .failed(failure) }
        let submission = request.submission
        var driver = state.drivers[request.driver] ?? Driver()
        if let outcome = repeated(submission, of: driver) { return outcome }
        if request.service != nil, state.drivers[request.driver] == nil || request.driver.isPseudonym {
            return .driverNotFound
        }
        if let sessionID = submission.sessionID {
            let known = state.sessions[sessionID]
            if known == nil && request.requiresRegisteredSession { return .sessionNotFound }
            if let known, known.driver != request.driver { return .sessionNotFound }
            state.sessions[sessionID] = known ?? Session(driver: request.driver, isRegistered: false)
        }
        let verdict = driver.store(request)
        state.drivers[request.driver] = driver
        return .stored(StoredEvent(eventID: submission.eventID, verdict: verdict, journey: driver.journey))
    }
}

extension MemoryEventStore.Driver {
    /// Adds the event and folds all events again. Returns the verdict on the new event.
    fileprivate mutating func store(_ request: AppendRequest) -> Verdict {
        let submission = request.submission
        let clock = ClockCorrection(request, memory: clockMemory)
        clockMemory = clock.memory
        let placed = OrderedEvent(
            name: submission.name, sessionID: submission.sessionID, chargerID: submission.chargerID,
            occurredAt: clock.corrected, sequence: submission.sequence, eventID: submission.eventID,
            idempotencyKey: submission.idempotencyKey, origin: .client, sender: request.sender,
            previousState: submission.previousState, isWholeSecond: submission.isWholeSecond,
            gracePeriodSeconds: request.settings.settings.gracePeriodSeconds,
            hardTimeoutSeconds: request.settings.settings.hardTimeoutSeconds)
        events.append(
            MemoryEventStore.Stored(placed: placed, submission: submission, verdict: .none))
        let ordered = Fold.inOrder(events.map(\.placed))
        for (event, step) in zip(ordered, Fold.replay(ordered)) {
            journey = step.journey
            guard let index = events.firstIndex(where: { $0.placed.idempotencyKey == event.idempotencyKey }) else {
                continue
            }
            events[index].verdict = step.verdict
        }
        return events.first { $0.placed.idempotencyKey == placed.idempotencyKey }?.verdict ?? .none
    }
}
