// Finds or adds the rows of values that many events share: kinds of events, places and settings. Caches the row
// numbers.
//
// The cache may hold rows that the current transaction has added. `forget()` must therefore be called after a rollback.
// Only ASCII values are cached (Texts.swift says why).

import Engine
import JourneyModel

final class InternTables {
    /// The maximum number of cached values per table. An installation has far fewer kinds and settings than this, but
    /// may have more places.
    private static let rememberedMax = 10_000

    private struct Kind: Hashable {
        var name: EventName
        var hasSession: Bool
        var spelling: String
        var schemaVersion: String
        var source: String
        var appState: String?
        var sender: OrderedEvent.Sender

        init(_ submission: EventSubmission, _ sender: OrderedEvent.Sender) {
            self.sender = sender
            name = submission.name
            hasSession = submission.sessionID != nil
            spelling = submission.spelling
            schemaVersion = submission.schemaVersion
            source = submission.source
            appState = submission.appState
        }

        var isASCII: Bool {
            name.canonical.isASCII && spelling.isASCII && schemaVersion.isASCII && source.isASCII
                && appState?.isASCII ?? true
        }

        /// The texts of this kind must be ASCII.
        func matches(_ submission: EventSubmission, _ sender: OrderedEvent.Sender) -> Bool {
            self.sender == sender && name == submission.name && hasSession == (submission.sessionID != nil)
                && submission.spelling.hasSameBytes(asASCII: spelling)
                && submission.schemaVersion.hasSameBytes(asASCII: schemaVersion)
                && submission.source.hasSameBytes(asASCII: source) && isAppState(submission.appState)
        }

        private func isAppState(_ other: String?) -> Bool {
            guard let appState, let other else { return appState == nil && other == nil }
            return other.hasSameBytes(asASCII: appState)
        }
    }

    /// A row of `event_kind`.
    struct KindRow {
        var id: Int64
        /// Whether the row holds a text that a client chose freely.
        var hasFreeText: Bool
    }

    /// A row of `place`.
    private struct PlaceRow {
        var id: Int64
        /// Whether the row is marked as the place of a charger.
        var isCharger: Bool
    }

    private var kinds: [Kind: KindRow] = [:]
    /// The most recently used kind of each event name, at the index `lifecycleRank`. All diagnostic names share one
    /// index.
    ///
    /// Most events of a name have the same kind. A lookup therefore first compares the event with the kind in this
    /// array. The comparison is faster than the hashing that a lookup in `kinds` needs.
    private var lastKinds: [(kind: Kind, row: KindRow)?] = []
    private var places: [String: PlaceRow] = [:]
    private var settings: [String: Int64] = [:]
    private var lastSettings: (version: String, id: Int64)?

    private let findKind: PreparedStatement
    private let addKind: PreparedStatement
    private let findPlace: PreparedStatement
    private let addPlace: PreparedStatement
    private let markCharger: PreparedStatement
    private let findSettings: PreparedStatement
    private let addSettings: PreparedStatement

    init(on connection: OpaquePointer) throws(SQLiteError) {
        findKind = try PreparedStatement(
            """
            SELECT id FROM event_kind WHERE name = ?1 AND has_session = ?2 AND spelling = ?3 AND schema_version = ?4
            AND source = ?5 AND origin = ?6 AND app_state IS ?7 AND sender = ?8
            """, on: connection)
        addKind = try PreparedStatement(
            """
            INSERT INTO event_kind
            (name, has_session, spelling, schema_version, source, origin, app_state, sender, lifecycle_rank)
            VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)
            """, on: connection)
        findPlace = try PreparedStatement("SELECT id, is_charger IS 1 FROM place WHERE place_id = ?1", on: connection)
        addPlace = try PreparedStatement("INSERT INTO place (place_id, is_charger) VALUES (?1, ?2)", on: connection)
        markCharger = try PreparedStatement("UPDATE place SET is_charger = 1 WHERE id = ?1", on: connection)
        findSettings = try PreparedStatement("SELECT id FROM settings_version WHERE version = ?1", on: connection)
        addSettings = try PreparedStatement(
            """
            INSERT INTO settings_version
            (version, grace_period_seconds, hard_timeout_seconds, settings, first_used_at_ms)
            VALUES (?1, ?2, ?3, ?4, ?5)
            """, on: connection)
    }

    func forget() {
        kinds.removeAll(keepingCapacity: true)
        lastKinds.removeAll(keepingCapacity: true)
        places.removeAll(keepingCapacity: true)
        settings.removeAll(keepingCapacity: true)
        lastSettings = nil
    }

    func kind(
        of submission: EventSubmission, origin: OrderedEvent.Origin, sender: OrderedEvent.Sender = .app
    ) throws(SQLiteError) -> KindRow {
        if let row = lastRemembered(submission, sender) { return row }
        let kind = Kind(submission, sender)
        let isASCII = kind.isASCII
        if isASCII, let row = remembered(kind) { return row }
        func bind(_ bindings: borrowing Bindings) throws(SQLiteError) {
            try bindings.set(1, kind.name.canonical)
            try bindings.set(2, kind.hasSession ? 1 : 0)
            try bindings.set(3, kind.spelling)
            try bindings.set(4, kind.schemaVersion)
            try bindings.set(5, kind.source)
            try bindings.set(6, Int64(origin.rawValue))
            try bindings.set(7, kind.appState)
            try bindings.set(8, Int64(kind.sender.rawValue))
        }
        let found = try findKind.first(bind) { row in row.integer(0) }
        let id =
            if let found { found } else {
                try addKind.inserted { (bindings) throws(SQLiteError) in
                    try bind(bindings)
                    try bindings.set(9, Int64(kind.name.lifecycleRank))
                }
            }
        let row = KindRow(id: id, hasFreeText: submission.hasFreeText)
        if isASCII { Self.remember(row, as: kind, in: &kinds) }
        return row
    }

    private func lastRemembered(_ submission: EventSubmission, _ sender: OrderedEvent.Sender) -> KindRow? {
        let rank = Int(submission.name.lifecycleRank)
        guard rank < lastKinds.count, let last = lastKinds[rank], last.kind.matches(submission, sender) else {
            return nil
        }
        return last.row
    }

    private func remembered(_ kind: Kind) -> KindRow? {
        guard let row = kinds[kind] else { return nil }
        let rank = Int(kind.name.lifecycleRank)
        while rank >= lastKinds.count { lastKinds.append(nil) }
        lastKinds[rank] = (kind, row)
        return row
    }

    /// - Parameter isCharger: true if the event names the place as its charger. If an earlier event named the place as
    ///   its merchant, the place's row is then marked as a charger's.
    func place(_ placeID: String?, isCharger: Bool) throws(SQLiteError) -> Int64? {
        guard let placeID else { return nil }
        let isASCII = placeID.isASCII
        if isASCII, let row = places[placeID], row.isCharger || !isCharger { return row.id }
        var row: PlaceRow
        let found = try findPlace.first { (bindings) throws(SQLiteError) in
            try bindings.set(1, placeID)
        } read: { row in
            PlaceRow(id: row.integer(0), isCharger: row.integer(1) == 1)
        }
        if let found {
            row = found
            if isCharger, !row.isCharger {
                try markCharger.run { (bindings) throws(SQLiteError) in try bindings.set(1, found.id) }
                row.isCharger = true
            }
        } else {
            let id = try addPlace.inserted { (bindings) throws(SQLiteError) in
                try bindings.set(1, placeID)
                try bindings.set(2, isCharger ? 1 : 0)
            }
            row = PlaceRow(id: id, isCharger: isCharger)
        }
        if isASCII { Self.remember(row, as: placeID, in: &places) }
        return row.id
    }

    func settingsVersion(_ versioned: VersionedSettings, at now: Moment) throws(SQLiteError) -> Int64 {
        if let last = lastSettings, versioned.version.hasSameBytes(asASCII: last.version) { return last.id }
        let isASCII = versioned.version.isASCII
        if isASCII, let id = settings[versioned.version] {
            lastSettings = (versioned.version, id)
            return id
        }
        let found = try findSettings.first { (bindings) throws(SQLiteError) in
            try bindings.set(1, versioned.version)
        } read: { row in
            row.integer(0)
        }
        let id =
            if let found { found } else {
                try addSettings.inserted { (bindings) throws(SQLiteError) in
                    try bindings.set(1, versioned.version)
                    try bindings.set(2, Int64(versioned.settings.gracePeriodSeconds))
                    try bindings.set(3, Int64(versioned.settings.hardTimeoutSeconds))
                    try bindings.set(4, String(decoding: versioned.settings.wireJSON, as: UTF8.self))
                    try bindings.set(5, now.millisecondsSinceEpoch)
                }
            }
        if isASCII { Self.remember(id, as: versioned.version, in: &settings) }
        return id
    }

    /// If the cache is full, empties it first. A value that is still used is cached again with its next event.
    private static func remember<Key: Hashable, Row>(_ row: Row, as key: Key, in memory: inout [Key: Row]) {
        if memory.count >= rememberedMax { memory.removeAll(keepingCapacity: true) }
        memory[key] = row
    }
}
