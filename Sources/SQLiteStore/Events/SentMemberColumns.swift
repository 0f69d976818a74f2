// The columns of `SentMembers`, for every query that shows events.

import GRDB
import JourneyModel

enum SentMemberColumns {
    /// The name and the SQL expression of each column, for a query on `event CROSS JOIN event_kind`.
    static let all = columns()

    /// Returns the SQL for these columns.
    ///
    /// - Parameters:
    ///   - details: the SQL expression for the column `details`. If no server of this version has opened the file, the
    ///     file may lack this column. The caller then passes a substitute.
    ///   - sender: the SQL expression for the column `sender`, or a substitute if the file lacks this column.
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
    /// `first` is the index of the first of the `SentMemberColumns`.
    init(_ row: Row, at first: Int) {
        self.init(
            source: row[first], appState: row[first + 1], chargerID: row[first + 2], merchantID: row[first + 3],
            sequence: row[first + 4], details: row[first + 5], sender: row[first + 6])
    }
}
