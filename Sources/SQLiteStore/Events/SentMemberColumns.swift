// The columns of `SentMembers`, for every query that shows events.

import GRDB
import JourneyModel

enum SentMemberColumns {
    /// Returns the SQL for the columns of `SentMembers`, in a query on `event CROSS JOIN event_kind`. Each column has
    /// the name of its member.
    ///
    /// - Parameters:
    ///   - details: the SQL expression for the column `details`. If no server of this version has opened the file yet,
    ///     the file lacks this column, and the caller passes a substitute.
    ///   - sender: the SQL expression for the column `sender`, or a substitute in the same case.
    static func sql(details: String = "details", sender: String = "sender") -> String {
        """
        source, app_state, (SELECT place_id FROM place WHERE place.id = event.charger) AS charger_id,
        (SELECT place_id FROM place WHERE place.id = event.merchant) AS merchant_id, sequence, \(details) AS details,
        iif(\(sender) = \(OrderedEvent.Sender.service.rawValue), 'service', NULL) AS sender
        """
    }

    /// The number of columns in `sql`.
    static let count = 7
}

extension SentMembers {
    /// Reads the columns of `SentMemberColumns`. `first` is the index of the first one.
    init(_ row: Row, at first: Int) {
        self.init(
            source: row[first], appState: row[first + 1], chargerID: row[first + 2], merchantID: row[first + 3],
            sequence: row[first + 4], details: row[first + 5], sender: row[first + 6])
    }
}
