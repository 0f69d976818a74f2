// The lane of a row: a hash of the text by which the row is found (for example, the driver's id). On a single
// PostgreSQL server, the lane is stored and otherwise unused. On Citus, it decides on which server the row lies
// (migrations/postgresql/0001_events.sql).

enum Lane {
    static let count: UInt64 = 1024
    /// The number of low bits of a `driver.id` that are random. The bits above them contain the lane.
    private static let randomBits: Int64 = 53

    /// Returns the lane for a text, by FNV-1a over its bytes. Stored rows depend on this function, so it must never
    /// change.
    static func of(_ text: String) -> Int16 {
        var hash: UInt64 = 0xCBF2_9CE4_8422_2325
        for byte in text.utf8 { hash = (hash ^ UInt64(byte)) &* 0x0100_0000_01B3 }
        return Int16((hash ^ hash >> 32) % count)
    }

    /// Returns the lane of the driver with this id.
    static func of(driver id: Int64) -> Int16 { Int16(truncatingIfNeeded: id >> randomBits) }

    /// Returns the SQL expression for the lane of a driver. `sql` is an expression for the `driver.id`. With conditions
    /// on both the driver and the lane, Citus sends a statement only to the driver's server.
    static func sql(ofDriver sql: String) -> String { "CAST(\(sql) >> \(randomBits) AS int2)" }

    /// Returns a name that begins with `name` and whose lane is `lane`, so that a renamed driver stays in its lane.
    static func name(_ name: String, in lane: Int16) -> String {
        // One name in 1024 has the wanted lane, so the loop practically always finds one.
        for number in 0..<(100 * Int(count)) {
            let text = number == 0 ? name : name + String(number, radix: 36)
            if of(text) == lane { return text }
        }
        return name
    }

    /// Returns a random id for a new driver. If another driver has this id, the insert does nothing, and the batch
    /// tries again with another id.
    static func newDriverID(in lane: Int16) -> Int64 {
        Int64(lane) << randomBits | Int64.random(in: 1..<(1 << randomBits))
    }

    /// Returns the id of a driver who is transferred from SQLite. The low bits contain the driver's row number in
    /// SQLite. In other ids, these bits are random.
    static func driverID(in lane: Int16, row: Int64) -> Int64 {
        Int64(lane) << randomBits | row
    }
}
