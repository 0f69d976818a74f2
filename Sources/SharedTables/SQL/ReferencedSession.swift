// A session, as the tables of this module refer to it. The sessions themselves are in tables of each store.

package import Engine
package import JourneyModel

/// The value of a column `session`. Of the columns in this module's statements, only this one has another type in each
/// of the two databases.
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
    /// The driver's journey as stored, which is not necessarily in this session. Its targets may be missing.
    package var journey: Journey

    package init(reference: SessionReference, driver: Int64, driverID: DriverID, journey: Journey) {
        self.reference = reference
        self.driver = driver
        self.driverID = driverID
        self.journey = journey
    }
}
