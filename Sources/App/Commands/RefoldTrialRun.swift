// Tries a refold in memory, and shows the progress. Used by `dwell refold --dry-run` and `dwell config try`.

import Engine
import JourneyModel
import SQLiteStore
import Simulation

enum RefoldTrialRun {
    static func outcome(
        _ change: TriedChange, now: Moment, _ configuration: Configuration
    ) async throws -> TrialOutcome {
        let progress = ProgressOutput(unit: "drivers")
        defer { progress.end() }
        switch configuration.database {
        case .sqlite(let path):
            return try reading(path) { (trial: RefoldTrial) throws(RecordsUnreadable) in
                try trial.run(change, now: now) {
                    progress.show(DeliveryProgress(delivered: $0.done, total: $0.total))
                }
            }
        case .postgres:
            return try await changing(configuration) { stores, _ in
                try await stores.refoldTrial?.tryRefold(change, now: now) { done, total in
                    progress.show(DeliveryProgress(delivered: done, total: total))
                } ?? TrialOutcome()
            }
        }
    }
}
