// Completes deletions that were interrupted, either because the process ended or because the store failed.

import JourneyModel

extension ErasureCompletion {
    /// Completes a deletion that has begun. If the store throws `unavailable`, this function throws `unknown` instead,
    /// because a caller takes `unavailable` to mean that nothing was changed.
    func completeErasure(of driver: DriverID) async throws(AccountFailure) {
        do throws(AccountFailure) {
            _ = try await completeErasures(of: driver)
        } catch {
            switch error {
            case .unavailable(let text): throw .unknown("the deletion continues later: \(text)")
            default: throw error
            }
        }
    }
}

/// The background task that completes deletions while the server runs.
package struct UnfinishedErasures: Sendable {
    static let pause = Duration.seconds(5)

    private let store: any ErasureCompletion
    private let completed: @Sendable (Int) -> Void
    private let failed: @Sendable (AccountFailure) -> Void

    /// Creates the task, which regularly completes unfinished deletions. After each round that completed at least one,
    /// it calls `completed` with their number.
    package init(
        store: any ErasureCompletion, completed: @escaping @Sendable (Int) -> Void,
        failed: @escaping @Sendable (AccountFailure) -> Void
    ) {
        self.store = store
        self.completed = completed
        self.failed = failed
    }

    /// Runs until the task is cancelled. A deletion in progress then stops between two of its transactions. The
    /// deletion continues after the next start of the server.
    package func run() async {
        while !Task.isCancelled {
            do throws(AccountFailure) {
                let count = try await store.completeErasures(of: nil)
                if count > 0 { completed(count) }
            } catch {
                if error != .cancelled { failed(error) }
            }
            do { try await Task.sleep(for: Self.pause) } catch { return }
        }
    }
}
