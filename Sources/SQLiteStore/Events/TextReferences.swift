// Records, for each text that clients choose freely, which drivers use it. Such texts are in tables that all drivers
// share (`place`, `event_kind`). The deletion of a driver also removes the texts that only this driver uses, and finds
// them here without a scan of all events.

import JourneyModel

/// Records each use of a text only once, and caches recent uses. The cache may hold uses that the current transaction
/// has recorded, so `forget()` must be called after a rollback. It must also be called when other code has changed the
/// tables.
final class TextReferences {
    private struct Use: Hashable {
        var driver: Int64
        var row: Int64
    }

    /// The maximum number of cached uses per table. Each use takes 32 bytes. A use that is no longer cached costs one
    /// index lookup.
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
        // Nearly every event of a driver names the same place as the driver's previous event.
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

/// The sources that the shipped clients and the server use. Any other source may be a text that a client chose freely.
enum UsualTexts {
    static let sources: Set<String> = ["ios_native", "android_native", "web", "server"]

    /// SQL condition that is true for a row of `event_kind` if no text in it was chosen freely by a client. The name of
    /// a diagnostic event is chosen freely. Diagnostic events have the highest lifecycle rank, so the condition on the
    /// rank excludes them.
    static let sql = """
        (lifecycle_rank < \(EventName.diagnostic("d").lifecycleRank)
            AND source IN ('ios_native', 'android_native', 'web', 'server') AND schema_version = '1.0')
        """
}

extension EventSubmission {
    /// Whether the event's row in `event_kind` holds a text that the client chose freely.
    var hasFreeText: Bool {
        if case .diagnostic = name { return true }
        return schemaVersion != "1.0" || !UsualTexts.sources.contains(source)
    }
}
