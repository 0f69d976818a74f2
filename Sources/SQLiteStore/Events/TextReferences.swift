// Records which drivers use the texts that clients choose freely. All drivers share the tables with these texts
// (`place`, `event_kind`). With these records, the deletion of a driver finds the texts that only this driver uses.

import JourneyModel

/// Records each use only once, and caches recent uses. `forget()` must be called after a rollback, because the cache
/// may hold uses of the current transaction. It must also be called when other code has changed the tables.
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

    /// SQL condition for the rows of `event_kind` that contain no text chosen freely by a client. Clients choose the
    /// names of diagnostic events, so the condition on the lifecycle rank excludes these events.
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
