// A piece of work that waits for a batch: an event, a registration, the check of a driver's deadline, or a refold. Each
// work is answered exactly once.

import Engine
import JourneyModel
import Sockets
import Synchronization

struct Work: Sendable {
    enum Kind: Sendable {
        case append(PreparedAppend, AppendReply, index: Int)
        case register(SessionRegistration, CheckedContinuation<Result<RegistrationOutcome, StoreFailure>, Never>)
        /// The answer tells whether an expiry (the event of a passed deadline) was stored.
        case expire(ExpiryRequest, CheckedContinuation<Result<Bool, StoreFailure>, Never>)
        case refold(DriverRefold, CheckedContinuation<Result<RefoldCounts, StoreFailure>, Never>)
    }

    let kind: Kind
    /// The work fails if it is not done by this time.
    let until: Deadline
    /// The number of batches that failed to do this work because of another transaction. After
    /// `DriverGroup.conflictsBeforeLock` such batches, the work gets a batch of its own that locks the driver.
    var conflictCount = 0
    /// Whether the work needs a batch of its own, under a lock.
    var isAlone = false
    /// Whether the work must read many of the driver's events. If so, it gets a long batch: a batch of its own, under a
    /// lock, with longer time limits.
    var isLong = false
    /// The numbers of batches whose writes of this work were sent, but not answered. One of these batches may have
    /// stored the work.
    var batchesInDoubt: [Int64] = []

    var isInDoubt: Bool { !batchesInDoubt.isEmpty }

    /// Whether the work's batch may take much longer than other batches, because it is long or waits for another
    /// instance's lock.
    var mayBeSlow: Bool { isLong || conflictCount >= DriverGroup.conflictsBeforeLock }

    init(_ kind: Kind, until: Deadline) {
        (self.kind, self.until) = (kind, until)
    }

    /// Whether this is the check of a driver's deadline.
    var isCheck: Bool {
        if case .expire = kind { true } else { false }
    }

    /// The order of a refold; nil for other kinds of work.
    var refold: DriverRefold? {
        if case .refold(let refold, _) = kind { return refold }
        return nil
    }

    func answer(_ outcome: WorkOutcome) {
        switch (kind, outcome) {
        case (.append(_, let reply, let index), .event(let outcome)): reply.set(outcome, at: index)
        case (.append(let append, let reply, let index), .failure(let failure)):
            reply.set(append.outcome(of: failure), at: index)
        case (.register(_, let waiting), .registration(let outcome)): waiting.resume(returning: .success(outcome))
        case (.register(_, let waiting), .failure(let failure)): waiting.resume(returning: .failure(failure))
        case (.expire(_, let waiting), .expiry(let isStored)): waiting.resume(returning: .success(isStored))
        case (.expire(_, let waiting), .failure(let failure)): waiting.resume(returning: .failure(failure))
        case (.refold(_, let waiting), .refold(let counts)): waiting.resume(returning: .success(counts))
        case (.refold(_, let waiting), .failure(let failure)): waiting.resume(returning: .failure(failure))
        case (.append, _), (.register, _), (.expire, _), (.refold, _):
            answer(.failure(.unavailable("an answer to other work")))
        }
    }

    /// Returns the failure of work that is given up. This is `.unknown` if a batch may have stored the work, and
    /// `.unavailable` if not.
    func failure(_ reason: String) -> StoreFailure { isInDoubt ? .unknown(reason) : .unavailable(reason) }
}

/// An order to fold a driver's events again, with other settings or by the rules of this release.
struct DriverRefold: Sendable {
    /// See `RefoldRequest.now`.
    var now: Moment?
    /// The correction, and the time of the first event that it changes.
    var correction: (settings: FoldCorrection, from: Moment)?
}

enum WorkOutcome: Sendable {
    case event(EventOutcome)
    case registration(RegistrationOutcome)
    case expiry(Bool)
    case refold(RefoldCounts)
    case failure(StoreFailure)
}

/// Collects the outcomes of one call of `append`. The last outcome resumes the caller with all of them.
final class AppendReply: Sendable {
    private struct State {
        var outcomes: [EventOutcome?]
        var leftCount: Int
    }

    private let state: Mutex<State>
    private let waiting: CheckedContinuation<[EventOutcome], Never>

    init(count: Int, _ waiting: CheckedContinuation<[EventOutcome], Never>) {
        state = Mutex(State(outcomes: Array(repeating: nil, count: count), leftCount: count))
        self.waiting = waiting
    }

    func set(_ outcome: EventOutcome, at index: Int) {
        let whole = state.withLock { state -> [EventOutcome]? in
            if state.outcomes[index] == nil { state.leftCount -= 1 }
            state.outcomes[index] = outcome
            return state.leftCount == 0 ? state.outcomes.compactMap(\.self) : nil
        }
        if let whole { waiting.resume(returning: whole) }
    }
}
