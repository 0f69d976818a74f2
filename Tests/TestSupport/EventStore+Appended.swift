package import Engine

extension EventStore {
    /// Appends one event. If the outcome is a failure, throws this failure.
    package func appended(_ request: AppendRequest) async throws(StoreFailure) -> EventOutcome {
        let outcome = await append(request)
        if case .failed(let failure) = outcome { throw failure }
        return outcome
    }
}
