// The columns of `SentMembers`, for every query that shows events.

import GRDB
import JourneyModel

enum SentMemberColumns {
    /// The columns of `SentMembers`, each with the name of its member and its SQL expression, in a query on
    /// `event CROSS JOIN event_kind`.
    static let all = columns()

    /// Returns the SQL for these columns.
    ///
    /// - Parameters:
    ///   - details: the SQL expression for the column `details`. If no server of this version has opened the file yet,
    ///     the file lacks this column, and the caller passes a substitute.
    ///   - sender: the SQL expression for the column `sender`, or a substitute in the same case.
    static func sql(details: String = "details", sender: String = "sender") -> String {
        columns(details: details, sender: sender).map { "\($0.sql) AS \($0.name)" }.joined(separator: ", ")
    }

    private static func columns(
        details: String = "details", sender: String = "sender"
    ) -> [(name: String, sql: String)] {
        [
            ("source", "source"), ("app_state", "app_state"),
            ("charger_id", "(SELECT place_id FROM place WHERE place.id = event.charger)"),
            ("merchant_id", "(SELECT place_id FROM place WHERE place.id = event.merchant)"), ("sequence", "sequence"),
            ("details", details),
            ("sender", "iif(\(sender) = \(OrderedEvent.Sender.service.rawValue), 'service', NULL)"),
        ]
    }

    static var count: Int { all.count }
}

extension SentMembers {
    /// Reads the columns of `SentMemberColumns`. `first` is the index of the first one.
    init(_ row: Row, at first: Int) {
        self.init(
            source: row[first], appState: row[first + 1], chargerID: row[first + 2], merchantID: row[first + 3],
            sequence: row[first + 4], details: row[first + 5], sender: row[first + 6])
    }
}
