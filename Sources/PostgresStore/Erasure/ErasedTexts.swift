// SQL that replaces the texts that clients sent, when their driver is deleted. Texts that the API defines, such as
// event names, are kept.
//
// SQLite's store keeps a text that other drivers use too. This store cannot find the other uses, because most columns
// with such texts have no index. It therefore replaces every such text in the deleted driver's rows.

import JourneyModel

enum ErasedTexts {
    /// Returns the SQL expression for the new id of the session whose old id is in `column`. Parameters: ?1
    /// `driver.id`, ?2 the pseudonym.
    static func session(_ column: String) -> String {
        """
        CASE WHEN \(column) IS NULL OR starts_with(\(column), CAST(?2 AS text)) THEN \(column)
        ELSE coalesce((SELECT ?2 || '-' || CAST(named.number AS text) FROM session named
            WHERE named.driver = ?1 AND named.lane = \(Lane.sql(ofDriver: "?1")) AND named.session_id = \(column)),
            ?2 || '-0') END
        """
    }

    /// Returns the SQL expression for the new id of a place (a charger or a merchant). Parameters: those of `session`.
    static func place(_ column: String, _ kind: String) -> String {
        "CASE WHEN \(column) IS NOT NULL THEN ?2 || '-\(kind)' END"
    }

    /// The values of the column `source` that are kept. The shipped clients and the server use them.
    private static let usualSources = "'ios_native', 'android_native', 'web', 'server'"

    /// SQL condition for a diagnostic event: an event whose name is not in the API's list.
    private static let isDiagnostic = "lifecycle_rank = \(EventName.diagnostic("d").lifecycleRank)"

    /// The SET list of the UPDATE that replaces a client's texts in the row of an event.
    static let rewrittenEvent =
        (["session_id", "closed_session_id", "after_session_id", "after_previous_session_id"].map {
            "\($0) = \(session("event.\($0)"))"
        } + [
            "charger = \(place("event.charger", "charger"))",
            "merchant = \(place("event.merchant", "merchant"))",
            "after_target_charger = \(place("event.after_target_charger", "charger"))",
            "after_next_target_charger = \(place("event.after_next_target_charger", "charger"))",
            "source = CASE WHEN source IN (\(usualSources)) THEN source ELSE ?2 || '-source' END",
            "schema_version = '1.0'",
            "name = CASE WHEN \(isDiagnostic) THEN 'erased_diagnostic' ELSE name END",
            "spelling = CASE WHEN \(isDiagnostic) THEN 'erased_diagnostic' ELSE name END",
        ]).joined(separator: ", ")

    /// Returns the SET list of the UPDATE that replaces a client's texts in a row of `driver` or `journey_base`.
    static func rewrittenJourney(_ table: String) -> String {
        """
        session_id = \(session("\(table).session_id")),
        previous_session_id = \(session("\(table).previous_session_id")),
        target_charger = \(place("\(table).target_charger", "charger")),
        next_target_charger = \(place("\(table).next_target_charger", "charger"))
        """
    }
}
