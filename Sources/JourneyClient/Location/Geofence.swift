// The circles that the phone's operating system monitors while the app is suspended.

/// A circle to monitor.
public struct Geofence: Hashable, Sendable {
    /// Raw values never change, so that they can be used in the platform's region identifiers.
    public enum Zone: String, Hashable, Sendable, CaseIterable {
        case chargerIntent = "charger_intent"
        case chargerAnchor = "charger_anchor"
        case merchant
    }

    public var zone: Zone
    /// The charger or the merchant at the center.
    public var place: Place
    public var radiusMeters: Double

    public init(zone: Zone, place: Place, radiusMeters: Double) {
        self.zone = zone
        self.place = place
        self.radiusMeters = radiusMeters
    }
}

/// The operating system's report that the phone entered or left a geofence.
public struct GeofenceCrossing: Hashable, Sendable {
    public enum Direction: Hashable, Sendable {
        case entered
        case exited
    }

    public var direction: Direction
    public var zone: Geofence.Zone
    /// The id of the charger or merchant at the center. A crossing can be reported late. The engine ignores the
    /// crossing of a geofence that it no longer monitors.
    public var placeID: Identifier

    public init(_ direction: Direction, _ zone: Geofence.Zone, of placeID: Identifier) {
        self.direction = direction
        self.zone = zone
        self.placeID = placeID
    }
}

/// A charger or a merchant.
public struct Place: Hashable, Sendable {
    public var id: Identifier
    public var coordinate: Coordinate

    public init(id: Identifier, coordinate: Coordinate) {
        self.id = id
        self.coordinate = coordinate
    }
}

/// The id of a session, a charger or a merchant: a text that the server accepts as an id (contract, section 3).
public struct Identifier: Hashable, Sendable {
    public let text: String

    /// Nil unless `text` has 1 to 128 Unicode scalars and no control character.
    public init?(_ text: String) {
        let scalars = text.unicodeScalars
        guard (1...128).contains(scalars.count),
            !scalars.contains(where: { $0.properties.generalCategory == .control })
        else { return nil }
        self.text = text
    }
}
