// Leaves stored rows as an older release with other fold rules would have left them.

import Engine
import GRDB
import JourneyModel

@testable import SQLiteStore

enum OldRules {
    /// Changes the rows of all drivers whose refold is not in progress, as if an older release had folded them. For
    /// half of the drivers, the older release has rejected all events. For the others, it has computed a deadline five
    /// minutes too early.
    ///
    /// - Parameter rejectsOdd: whether the events of the drivers with odd row numbers are rejected.
    static func fold(rejectsOdd: Bool, in store: SQLiteEventStore) async throws {
        try await store.change { db in
            let (rejected, early) = rejectsOdd ? (1, 0) : (0, 1)
            let stored = "rules = \(Fold.rulesVersion)"
            try db.execute(
                sql: """
                    UPDATE event_row SET transition = \(Verdict.Transition.rejected.code), reason = NULL, implied = 0,
                        after_state = 0, after_session = NULL, after_target_charger = NULL,
                        after_next_target_charger = NULL, after_grace_offset_ms = NULL, after_hard_offset_ms = NULL,
                        after_ended_by = NULL, after_previous_session = NULL, closed_session = NULL
                    WHERE driver IN (SELECT id FROM driver WHERE \(stored) AND id % 2 = \(rejected));
                    UPDATE driver SET state = 0, session = NULL, target_charger = NULL, next_target_charger = NULL,
                        grace_deadline_ms = NULL, hard_deadline_ms = NULL, ended_by = NULL, previous_session = NULL,
                        rules = \(Fold.rulesVersion - 1)
                    WHERE \(stored) AND id % 2 = \(rejected);
                    UPDATE driver SET grace_deadline_ms = grace_deadline_ms - 300000,
                        hard_deadline_ms = hard_deadline_ms - 300000, rules = \(Fold.rulesVersion - 1)
                    WHERE \(stored) AND id % 2 = \(early);
                    """)
        }
    }
}
