// The kinds of the writer's work, each with the continuation of the waiting task. Each continuation is resumed exactly
// once: after the transaction, or at once if the queue refuses the work. Cancelling the waiting task does not stop the
// work.

import Engine
import GRDB
import SharedTables

/// One piece of the writer's work.
///
/// Appends have unchecked continuations, because a checked one allocates an object for each event. Each is still
/// resumed exactly once. `Writer.add` fails work that it does not enqueue. All work taken from the queue is completed
/// or failed.
///
/// Large and rare cases are `indirect`, so their contents are stored behind a pointer. A value of this type therefore
/// takes only two words. This makes it cheap to move the frequent case, a single append.
enum WriterWork: QueuedWork {
    case append(PreparedAppend, UnsafeContinuation<EventOutcome, Never>)
    /// `after` has the outcomes of the earlier events of the same call. Their transactions are already committed.
    indirect case appendMany(
        [PreparedAppend], after: [EventOutcome], UnsafeContinuation<[EventOutcome], Never>)
    indirect case register(SessionRegistration, CheckedContinuation<Result<RegistrationOutcome, StoreFailure>, Never>)
    indirect case expire(ExpiryRequest, CheckedContinuation<Result<StoredExpiries, StoreFailure>, Never>)
    indirect case refold(DueRefold, CheckedContinuation<Result<RefoldPart, StoreFailure>, Never>)
    indirect case change(PendingChange)
    /// Tests whether the disk accepts writes. Changes no visible data.
    case probe(CheckedContinuation<Result<Void, StoreFailure>, Never>)

    var requestCount: Int {
        switch self {
        case .append, .register, .refold, .change, .probe: 1
        case .appendMany(let appends, _, _): appends.count
        case .expire(let request, _): request.driversMax
        }
    }

    /// Whether an earlier transaction has committed a part of the work: an appended event whose refold is not complete,
    /// or the first rows of a deletion.
    var hasStored: Bool {
        switch self {
        case .append(let append, _): append.isStored
        case .appendMany(let appends, _, _): appends.first?.isStored ?? false
        case .change(let change): change.isPaced
        case .register, .expire, .refold, .probe: false
        }
    }

    /// Resumes the waiting task with a failure. The failure says whether it is certain that nothing was stored.
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

/// A change in ordinary SQL for which `WriterWork` has no separate case. It runs in a savepoint, so that a failed
/// change is rolled back without affecting the other work of the transaction.
///
/// A refusal that writes something, for example the count of wrong guesses, must be an outcome and not a failure. A
/// failure would roll back the write.
struct PendingChange: Sendable {
    /// Makes the change. May run a second time, after a rollback.
    let make: @Sendable (Database) throws -> CompletedChange
    let fail: @Sendable (StoreFailure) -> Void
    /// Whether this is a piece of a driver's long deletion, which shares the writer with other work like a refold
    /// (RefoldPace).
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

/// Finished work, whose task is resumed after the transaction.
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
