// The columns of `SentMembers`, for every query that shows events.

import GRDB
import JourneyModel

enum SentMemberColumns {
    /// Of `event CROSS JOIN event_kind`, named like the members.
    ///
    /// - Parameter details: the column of that name; a file that no server of this version opened has none.
    static func sql(details: String = "details") -> String {
        """
        source, app_state, (SELECT place_id FROM place WHERE place.id = event.charger) AS charger_id,
        (SELECT place_id FROM place WHERE place.id = event.merchant) AS merchant_id, sequence, \(details) AS details
        """
    }

    /// How many columns these are.
    static let count = 6
}

extension SentMembers {
    /// From the columns of `SentMemberColumns`, the first of which has that index.
    init(_ row: Row, at first: Int) {
        self.init(
            source: row[first], appState: row[first + 1], chargerID: row[first + 2], merchantID: row[first + 3],
            sequence: row[first + 4], details: row[first + 5])
    }
}
