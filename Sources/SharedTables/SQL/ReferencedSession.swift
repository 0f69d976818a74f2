// How the tables of this module refer to a session. Each store has its own table of sessions, with its own key.

package import Engine
package import JourneyModel

/// The value of a column `session`. It is a row number on SQLite and a text on PostgreSQL. All other columns in this
/// module's statements have the same type in both databases.
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
    /// The driver's stored journey. The driver may be in another session than this one, or in none. The target chargers
    /// may be missing in this value.
    package var journey: Journey
    /// The corrected time of the event that is last in the driver's order of events. Nil if the driver has no event, or
    /// if retention has deleted this event.
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
