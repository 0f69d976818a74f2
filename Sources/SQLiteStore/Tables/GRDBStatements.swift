// Lets code with a GRDB connection call functions of SharedTables, which take an `SQLTransaction`.

import GRDB
import Identity
import JourneyModel
import SharedTables

extension DriverRows {
    static func row(of driver: DriverID, _ db: Database) throws -> Int64? {
        try row(of: driver, SQLiteTransaction(db))
    }
}

extension DeviceRows {
    static func device(_ row: Row, at index: Int) throws -> Device { try device(SQLRow(row), at: index) }
}
