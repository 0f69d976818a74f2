// The lane of a row: a hash of the text by which the row is found. On one PostgreSQL it only fills a column. On Citus it
// decides on which server the row lies (migrations/postgresql/0001_events.sql).

enum Lane {
    static let count: UInt64 = 1024
    /// The number of low bits of a driver's id that are random. The lane takes the bits above them.
    private static let randomBits: Int64 = 53

    /// FNV-1a over the bytes. Stored rows depend on it, so it never changes.
    static func of(_ text: String) -> Int16 {
        var hash: UInt64 = 0xCBF2_9CE4_8422_2325
        for byte in text.utf8 { hash = (hash ^ UInt64(byte)) &* 0x0100_0000_01B3 }
        return Int16((hash ^ hash >> 32) % count)
    }

    /// Returns an id for a new driver. Should another driver have this id, the driver is not inserted, and the next
    /// attempt takes another id.
    static func newDriverID(in lane: Int16) -> Int64 {
        Int64(lane) << randomBits | Int64.random(in: 1..<(1 << randomBits))
    }

    /// Returns the id of a driver who is transferred from SQLite: the row number takes the place of the random bits.
    static func driverID(in lane: Int16, row: Int64) -> Int64 {
        Int64(lane) << randomBits | row
    }

    /// Returns the lane in a driver's id.
    static func of(driver id: Int64) -> Int16 { Int16(id >> randomBits) }
}
