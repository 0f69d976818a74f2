// How much of each limit on one-time codes is used, for metrics.

package import Engine
import GRDB
package import Identity
package import JourneyModel

extension SQLiteEventStore {
    /// Returns the used share of each limit. Counts the codes that were sent in the hour before `now`.
    package func codeSendUses(_ limits: CodeSendLimits, at now: Moment) async throws(StoreFailure) -> [CodeSendUse] {
        try await read { db in try CodeRows.uses(limits, at: now, db) }
    }
}
