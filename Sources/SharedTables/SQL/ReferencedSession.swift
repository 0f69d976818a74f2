// The reference by which the tables of this module refer to a session. Each store has its own tables of sessions.

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
    /// The journey that is stored for the driver now. This journey need not belong to this session: the driver may be
    /// in another session or in none. The target chargers of this value may be missing.
    package var journey: Journey
    /// The corrected time of the driver's last event in the order; nil if there is none or retention has deleted it.
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
