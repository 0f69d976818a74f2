// Which drivers use a row with a free text in the tables shared by events (`place`, `event_kind`): a deletion
// removes the texts that no one else uses, and must not scan all events for that.

import JourneyModel

/// Writes each use once, and caches recent ones. The cache may hold uses of the current transaction, so call `forget()`
/// after a rollback, or when the tables were changed by other means.
final class TextReferences {
    private struct Use: Hashable {
        var driver: Int64
        var row: Int64
    }

    /// 32 bytes each. An evicted driver costs one index lookup.
    private static let rememberedMax = 32_768

    private var places: Set<Use> = []
    private var kinds: Set<Use> = []
    private let addPlace: PreparedStatement
    private let addKind: PreparedStatement

    init(on connection: OpaquePointer) throws(SQLiteError) {
        addPlace = try PreparedStatement(
            "INSERT INTO place_use (driver, place) VALUES (?1, ?2) ON CONFLICT DO NOTHING", on: connection)
        addKind = try PreparedStatement(
            "INSERT INTO event_kind_use (driver, kind) VALUES (?1, ?2) ON CONFLICT DO NOTHING", on: connection)
    }

    func forget() {
        places.removeAll(keepingCapacity: true)
        kinds.removeAll(keepingCapacity: true)
    }

    func note(place: Int64, of driver: DriverRow) throws(SQLiteError) {
        // Nearly all events of a driver name the place of the one before.
        if driver.lastPlace == place { return }
        try Self.note(Use(driver: driver.id, row: place), in: &places, by: addPlace)
        driver.lastPlace = place
    }

    func note(kind: InternTables.KindRow, of driver: DriverRow) throws(SQLiteError) {
        guard kind.hasFreeText else { return }
        try Self.note(Use(driver: driver.id, row: kind.id), in: &kinds, by: addKind)
    }

    private static func note(
        _ use: Use, in remembered: inout Set<Use>, by statement: PreparedStatement
    ) throws(SQLiteError) {
        if remembered.contains(use) { return }
        try statement.run { (bindings) throws(SQLiteError) in
            try bindings.set(1, use.driver)
            try bindings.set(2, use.row)
        }
        if remembered.count >= rememberedMax { remembered.removeAll(keepingCapacity: true) }
        remembered.insert(use)
    }
}

/// The sources of the shipped clients; any other may be a free text.
enum UsualTexts {
    static let sources: Set<String> = ["ios_native", "android_native", "web", "server"]

    /// Condition of a row of `event_kind` without text made up by a client. The rank of diagnostics is the last.
    static let sql = """
        (lifecycle_rank < \(EventName.diagnostic("d").lifecycleRank)
            AND source IN ('ios_native', 'android_native', 'web', 'server') AND schema_version = '1.0')
        """
}

extension EventSubmission {
    /// Whether its row in `event_kind` holds a text that the client made up.
    var hasFreeText: Bool {
        if case .diagnostic = name { return true }
        return schemaVersion != "1.0" || !UsualTexts.sources.contains(source)
    }
}
