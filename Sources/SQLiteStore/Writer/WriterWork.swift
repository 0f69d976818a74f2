// The kinds of the writer's work, each with the continuation of the task that waits for it. Each continuation is
// resumed exactly once: on the writer's queue after the transaction, or at once if the queue refuses the work. If the
// waiting task is cancelled, the work is done anyway.

import Engine
import GRDB
import SharedTables

/// One piece of the writer's work.
///
/// Appends have unchecked continuations, because a checked one allocates one more object for each event. Each unchecked
/// continuation is still resumed exactly once. `Writer.add` fails work that it does not enqueue, and all work taken
/// from the queue is completed or failed.
///
/// Large and rare cases are `indirect`, that is, their contents are stored behind a pointer. A value of this type then
/// takes only two words, so moving the frequent case of a single append is cheap.
enum WriterWork: QueuedWork {
    case append(PreparedAppend, UnsafeContinuation<EventOutcome, Never>)
    /// `after` contains the outcomes of the preceding events of the same call. Their transactions are already
    /// committed.
    indirect case appendMany(
        [PreparedAppend], after: [EventOutcome], UnsafeContinuation<[EventOutcome], Never>)
    indirect case register(SessionRegistration, CheckedContinuation<Result<RegistrationOutcome, StoreFailure>, Never>)
    indirect case expire(ExpiryRequest, CheckedContinuation<Result<StoredExpiries, StoreFailure>, Never>)
    indirect case refold(DueRefold, CheckedContinuation<Result<RefoldPart, StoreFailure>, Never>)
    indirect case change(PendingChange)
    /// A write that changes no visible data. It tests whether the disk accepts writes.
    case probe(CheckedContinuation<Result<Void, StoreFailure>, Never>)

    var requestCount: Int {
        switch self {
        case .append, .register, .refold, .change, .probe: 1
        case .appendMany(let appends, _, _): appends.count
        case .expire(let request, _): request.driversMax
        }
    }

    /// Whether an earlier transaction has stored a part of the work. For appended events, this is the first remaining
    /// event, if its refold is not complete. For a piece of a deletion, it is the transaction that began the deletion.
    var hasStored: Bool {
        switch self {
        case .append(let append, _): append.isStored
        case .appendMany(let appends, _, _): appends.first?.isStored ?? false
        case .change(let change): change.isPaced
        case .register, .expire, .refold, .probe: false
        }
    }

    /// Resumes the waiting task with a failure. The failure says either that nothing was stored, or that it is unknown
    /// whether something was stored.
    func fail(_ failure: StoreFailure) {
        switch self {
        case .append(let append, let waiting): waiting.resume(returning: append.outcome(of: failure))
        case .appendMany(let appends, let outcomes, let waiting):
            waiting.resume(returning: outcomes + appends.map { $0.outcome(of: failure) })
        case .register(_, let waiting): waiting.resume(returning: .failure(failure))
        case .expire(_, let waiting): waiting.resume(returning: .failure(failure))
        case .refold(_, let waiting): waiting.resume(returning: .failure(failure))
        case .change(let change): change.fail(failure)
        case .probe(let waiting): waiting.resume(returning: .failure(failure))
        }
    }
}

/// A change for which `WriterWork` has no case of its own, in ordinary SQL through GRDB. It runs in its own savepoint,
/// so a failed change is rolled back without affecting the other work of the transaction.
///
/// A refusal that writes something, for example the count of wrong guesses, is returned as an outcome. If it were
/// thrown as a failure, the write would be rolled back.
struct PendingChange: Sendable {
    /// Makes the change. May run a second time, after a rollback.
    let make: @Sendable (Database) throws -> CompletedChange
    let fail: @Sendable (StoreFailure) -> Void
    /// Whether this is a piece of a driver's long deletion. Like a refold, such a piece shares the writer with other
    /// work (RefoldPace).
    let isPaced: Bool

    init<Outcome: Sendable>(
        isPaced: Bool = false, effects: @escaping @Sendable (Outcome) -> ChangeEffects,
        _ change: @escaping @Sendable (Database) throws -> Outcome,
        resuming waiting: CheckedContinuation<Result<Outcome, StoreFailure>, Never>
    ) {
        make = { db in
            let outcome = try change(db)
            return CompletedChange(
                effects: effects(outcome), isPaced: isPaced, resume: { waiting.resume(returning: .success(outcome)) })
        }
        fail = { waiting.resume(returning: .failure($0)) }
        self.isPaced = isPaced
    }
}

struct CompletedChange: Sendable {
    var effects = ChangeEffects()
    var isPaced: Bool
    /// Delivers the outcome to the waiting task.
    var resume: @Sendable () -> Void
}

/// A finished piece of work. The waiting task is resumed after the transaction.
enum CompletedWork {
    case append(EventOutcome, UnsafeContinuation<EventOutcome, Never>)
    case appendMany([EventOutcome], UnsafeContinuation<[EventOutcome], Never>)
    case register(
        Result<RegistrationOutcome, StoreFailure>,
        CheckedContinuation<Result<RegistrationOutcome, StoreFailure>, Never>)
    case expire(StoredExpiries, CheckedContinuation<Result<StoredExpiries, StoreFailure>, Never>)
    case refold(RefoldPart, CheckedContinuation<Result<RefoldPart, StoreFailure>, Never>)
    case change(CompletedChange)
    case probe(CheckedContinuation<Result<Void, StoreFailure>, Never>)

    var purgesWAL: Bool {
        if case .change(let change) = self { change.effects.purgesWAL } else { false }
    }

    /// Whether the work was a piece of a refold or a deletion.
    var isPaced: Bool {
        switch self {
        case .refold: true
        case .change(let change): change.isPaced
        case .append, .appendMany, .register, .expire, .probe: false
        }
    }

    func resume() {
        switch self {
        case .append(let outcome, let waiting): waiting.resume(returning: outcome)
        case .appendMany(let outcomes, let waiting): waiting.resume(returning: outcomes)
        case .register(let outcome, let waiting): waiting.resume(returning: outcome)
        case .expire(let stored, let waiting): waiting.resume(returning: .success(stored))
        case .refold(let part, let waiting): waiting.resume(returning: .success(part))
        case .change(let change): change.resume()
        case .probe(let waiting): waiting.resume(returning: .success(()))
        }
    }
}
