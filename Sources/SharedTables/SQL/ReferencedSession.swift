// How this module's tables refer to a session. The key of the table `session` differs between the two stores.

package import Engine
package import JourneyModel

/// The value of a column `session`: a row number on SQLite and a text on PostgreSQL. In this module's statements, all
/// other columns have the same type in both databases.
extension SessionReference: SQLConvertible {
    package init?(_ value: SQLValue) {
        switch value {
        case .integer(let row): self = .row(row)
        case .text(let id): self = .id(id)
        case .null, .blob: return nil
        }
    }

    package var sqlValue: SQLValue {
        switch self {
        case .row(let row): .integer(row)
        case .id(let id): .text(id)
        }
    }
}

package struct ReferencedSession: Sendable {
    package var reference: SessionReference
    /// Row number in `driver`.
    package var driver: Int64
    package var driverID: DriverID
    /// The driver's stored journey. It may be in a session other than this one, or in none. Its target chargers may be
    /// missing.
    package var journey: Journey
    /// The corrected time of the last event in the driver's order of events. Nil if the driver has no event, or
    /// retention has deleted this event.
    package var lastEventAt: Moment?

    package init(
        reference: SessionReference, driver: Int64, driverID: DriverID, journey: Journey, lastEventAt: Moment?
    ) {
        self.reference = reference
        self.driver = driver
        self.driverID = driverID
        self.journey = journey
        self.lastEventAt = lastEventAt
    }
}
