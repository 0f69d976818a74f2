package import Engine

extension EventStore {
    /// `append` for a test that expects it to succeed: throws what failed.
    package func appended(_ request: AppendRequest) async throws(StoreFailure) -> EventOutcome {
        let outcome = await append(request)
        if case .failed(let failure) = outcome { throw failure }
        return outcome
    }
}
