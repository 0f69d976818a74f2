// Completes deletions that stopped: the process ended before they were complete, or the disk refused a piece.

import JourneyModel

extension ErasureCompletion {
    /// For a deletion that has begun: if it cannot be completed now, the outcome is not that nothing was changed.
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

/// Runs beside the server, from its start.
package struct UnfinishedErasures: Sendable {
    static let pause = Duration.seconds(5)

    private let store: any ErasureCompletion
    private let completed: @Sendable (Int) -> Void
    private let failed: @Sendable (AccountFailure) -> Void

    /// `completed` gets how many deletions were completed at once.
    package init(
        store: any ErasureCompletion, completed: @escaping @Sendable (Int) -> Void,
        failed: @escaping @Sendable (AccountFailure) -> Void
    ) {
        self.store = store
        self.completed = completed
        self.failed = failed
    }

    /// Returns when the task is cancelled.
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
