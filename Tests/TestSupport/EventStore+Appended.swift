package import Engine

extension EventStore {
    /// Appends one event in a test that expects success. Throws the failure otherwise.
    package func appended(_ request: AppendRequest) async throws(StoreFailure) -> EventOutcome {
        let outcome = await append(request)
        if case .failed(let failure) = outcome { throw failure }
        return outcome
    }
}
