// Computes a key's place in the hash table `event_key`: the driver's row number, followed by the first bits of
// SHA-256(secret ‖ driver ‖ key). A driver's keys are therefore close together, and a batch of events changes few
// pages.
//
// Each database has its own secret, so that a client cannot choose keys with the same place.

import Crypto
import GRDB

import struct Foundation.Data

struct EventKeyHash: Sendable {
    private static let sql = "SELECT secret, bits FROM event_key_hash WHERE id = 1"

    private let secret: [UInt8]
    /// The number of bits of the hash in a place.
    private let bits: Int

    init(on connection: OpaquePointer) throws(SQLiteError) {
        let found = try PreparedStatement(Self.sql, on: connection).first(
            { _ in }, read: { row in (row.blob(0), row.integer(1)) })
        guard let found else { throw SQLiteError.unreadable("event_key_hash") }
        self.init(secret: found.0, bits: Int(found.1))
    }

    init(_ db: Database) throws {
        guard let row = try Row.fetchOne(try db.cachedStatement(sql: Self.sql)) else {
            throw SQLiteError.unreadable("event_key_hash")
        }
        self.init(secret: [UInt8](row[0] as Data), bits: row[1])
    }

    private init(secret: [UInt8], bits: Int) {
        self.secret = secret
        self.bits = bits
    }

    func place(of key: StoredKey, of driver: Int64) -> Int64 {
        key.withBytes { place(of: $0, of: driver) }
    }

    /// - Parameter key: the bytes of the column `event.key`.
    func place(of key: UnsafeRawBufferPointer, of driver: Int64) -> Int64 {
        let count = secret.count + 8 + key.count
        return withUnsafeTemporaryAllocation(byteCount: count, alignment: 8) { buffer in
            buffer.copyBytes(from: secret)
            withUnsafeBytes(of: driver.bigEndian) { driver in
                UnsafeMutableRawBufferPointer(rebasing: buffer[secret.count...]).copyBytes(from: driver)
            }
            UnsafeMutableRawBufferPointer(rebasing: buffer[(secret.count + 8)...]).copyBytes(from: key)
            let digest = SHA256.hash(data: UnsafeRawBufferPointer(buffer))
            let first = digest.withUnsafeBytes { UInt64(bigEndian: $0.loadUnaligned(as: UInt64.self)) }
            let hash = Int64(first >> (64 - UInt64(bits)))
            // The mask keeps the result below 2^62, so that a search can count upwards without overflow. Drivers with
            // numbers above 2^(62 - bits) may share places with other drivers, which only costs a comparison.
            return (driver << Int64(bits)) & (.max >> 1) | hash
        }
    }
}
