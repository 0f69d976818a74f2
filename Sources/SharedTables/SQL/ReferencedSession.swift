// A session, as the tables of this module refer to it. The sessions themselves are in tables of each store.

package import JourneyModel

/// What a table has in a column `session`: SQLite's row number of the session, or on PostgreSQL, which has none, the
/// session_id. Only the store knows which. It is the only column whose type differs between the two.
package struct SessionReference: SQLConvertible, Hashable {
    package let sqlValue: SQLValue

    package init?(_ value: SQLValue) {
        switch value {
        case .integer, .text: sqlValue = value
        case .null, .blob: return nil
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
