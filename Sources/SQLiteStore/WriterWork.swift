// The kinds of work that the writer does, each with whoever waits for it. Continuations are resumed exactly once, on
// the writer's queue, after the transaction is over; nothing ties them to the cancellation of the waiting task.

import Engine

enum WriterWork: QueuedWork {
    case append(PreparedAppend, CheckedContinuation<Result<AppendOutcome, StoreFailure>, Never>)
    case appendMany([PreparedAppend], CheckedContinuation<[Result<AppendOutcome, StoreFailure>], Never>)
    case register(SessionRegistration, CheckedContinuation<Result<RegistrationOutcome, StoreFailure>, Never>)
    case expire(ExpiryRequest, CheckedContinuation<Result<StoredExpiries, StoreFailure>, Never>)
    /// A write that changes nothing that anybody reads: is the disk taking writes?
    case probe(CheckedContinuation<Result<Void, StoreFailure>, Never>)

    var requestCount: Int {
        switch self {
        case .append, .register, .probe: 1
        case .appendMany(let appends, _): appends.count
        case .expire(let request, _): request.driversMax
        }
    }

    /// Tells whoever waits that nothing of it happened, or that nobody knows.
    func fail(_ failure: StoreFailure) {
        switch self {
        case .append(_, let waiting): waiting.resume(returning: .failure(failure))
        case .appendMany(let appends, let waiting):
            waiting.resume(returning: appends.map { _ in .failure(failure) })
        case .register(_, let waiting): waiting.resume(returning: .failure(failure))
        case .expire(_, let waiting): waiting.resume(returning: .failure(failure))
        case .probe(let waiting): waiting.resume(returning: .failure(failure))
        }
    }
}

/// A piece of work that was done in a transaction, to be told after it is over.
enum DoneWork {
    case append(Result<AppendOutcome, StoreFailure>, CheckedContinuation<Result<AppendOutcome, StoreFailure>, Never>)
    case appendMany(
        [Result<AppendOutcome, StoreFailure>], CheckedContinuation<[Result<AppendOutcome, StoreFailure>], Never>)
    case register(
        Result<RegistrationOutcome, StoreFailure>,
        CheckedContinuation<Result<RegistrationOutcome, StoreFailure>, Never>)
    case expire(StoredExpiries, CheckedContinuation<Result<StoredExpiries, StoreFailure>, Never>)
    case probe(CheckedContinuation<Result<Void, StoreFailure>, Never>)

    func tell() {
        switch self {
        case .append(let outcome, let waiting): waiting.resume(returning: outcome)
        case .appendMany(let outcomes, let waiting): waiting.resume(returning: outcomes)
        case .register(let outcome, let waiting): waiting.resume(returning: outcome)
        case .expire(let stored, let waiting): waiting.resume(returning: .success(stored))
        case .probe(let waiting): waiting.resume(returning: .success(()))
        }
    }
}
