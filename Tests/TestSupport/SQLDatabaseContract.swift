// The requirements on every `SQLDatabase`. A test target runs all of these functions, as with `EventStoreContract`.
// Each clause uses its own drivers, so all clauses can share a database.

import Engine
import JourneyModel
package import SharedTables

package enum SQLDatabaseContract {
    package struct Clause: Sendable, CustomStringConvertible {
        package var description: String
        package var check: @Sendable (any SQLDatabase) async throws -> Void

        init(_ description: String, _ check: @escaping @Sendable (any SQLDatabase) async throws -> Void) {
            self.description = description
            self.check = check
        }
    }

    package static let all: [Clause] = [
        Clause("values are read as they were written", valuesKeep),
        Clause("a change returns the number of rows", counts),
        Clause("a parameter may be used twice", repeatedParameter),
        Clause("a change reads what it has written, and is then seen by reads", ownWrites),
        Clause("a failed change leaves nothing behind, and the next one runs", failure),
        Clause("the error of a deleted driver is an answer of its own", erased),
        Clause("a value that cannot be read is a failure", unreadable),
    ]

    @Sendable private static func valuesKeep(_ database: any SQLDatabase) async throws {
        let driver = DriverID("values")
        let texts: [String?] = ["", "ä \u{10FFFF} ' \" $1 ?", nil]
        let integers: [Int64] = [.min, -1, 0, .max]
        let found = try await database.change { db in
            let row = try db.addDriver(driver, at: .sample)
            for (integer, text) in zip(integers, texts + [nil]) {
                try db.execute(
                    sql: "INSERT INTO audit (at_ms, action, outcome, reason, driver, phone_digest)"
                        + " VALUES (?, 'exported', 'done', ?, ?, ?)",
                    arguments: [integer, text, row, [0, 0xFF, 0x27]])
            }
            return try SQLRow.fetchAll(
                db, sql: "SELECT at_ms, reason, phone_digest FROM audit WHERE driver = ? ORDER BY id",
                arguments: [row])
        }
        let expected = zip(integers, texts + [nil]).map { integer, text in
            SQLRow([.integer(integer), text.map(SQLValue.text) ?? .null, .blob([0, 0xFF, 0x27])])
        }
        try EventStoreContract.expect(found, expected, "rows")
    }

    @Sendable private static func counts(_ database: any SQLDatabase) async throws {
        let found = try await database.change { db in
            let row = try db.addDriver(DriverID("counts"), at: .sample)
            let insert = "INSERT INTO account (driver, role, created_at_ms) VALUES (?, 'driver', 0)"
            let added = try db.execute(sql: insert, arguments: [row])
            let repeated = try db.execute(sql: insert + " ON CONFLICT DO NOTHING", arguments: [row])
            let changed = try db.execute(sql: "UPDATE account SET name = 'n' WHERE driver = ?", arguments: [row])
            let removed = try db.execute(sql: "DELETE FROM account WHERE driver = ?", arguments: [row])
            let missing = try db.execute(sql: "DELETE FROM account WHERE driver = ?", arguments: [row])
            return [added, repeated, changed, removed, missing]
        }
        try EventStoreContract.expect(found, [1, 0, 1, 1, 0], "counts")
    }

    @Sendable private static func repeatedParameter(_ database: any SQLDatabase) async throws {
        let found = try await database.change { db in
            let row = try db.addDriver(DriverID("repeated"), at: .sample)
            return try Int.fetchOne(
                db, sql: "SELECT count(*) FROM driver WHERE (id = ?2 OR id = ?2) AND driver_id = ?1",
                arguments: ["repeated", row])
        }
        try EventStoreContract.expect(found, 1, "drivers")
    }

    @Sendable private static func ownWrites(_ database: any SQLDatabase) async throws {
        let row = try await database.change { db in
            let row = try db.addDriver(DriverID("own"), at: .sample)
            try db.execute(
                sql: "INSERT INTO account (driver, role, created_at_ms) VALUES (?, 'driver', 0)", arguments: [row])
            let count = try Int.fetchOne(db, sql: "SELECT count(*) FROM account WHERE driver = ?", arguments: [row])
            try EventStoreContract.expect(count, 1, "accounts in the transaction")
            return row
        }
        let role = try await database.read { db in
            try String.fetchOne(db, sql: "SELECT role FROM account WHERE driver = ?", arguments: [row])
        }
        try EventStoreContract.expect(role, "driver", "role")
    }

    @Sendable private static func failure(_ database: any SQLDatabase) async throws {
        let failure = await failure {
            try await database.change { db in
                let row = try db.addDriver(DriverID("failing"), at: .sample)
                // The table allows only two other values of `kind`.
                try db.execute(
                    sql: "INSERT INTO sign_in_session (sid, driver, kind, method, created_at_ms, last_used_at_ms,"
                        + " expires_at_ms) VALUES ('failing', ?, 'third', 'otp', 0, 0, 0)",
                    arguments: [row])
            }
        }
        guard case .unavailable = failure else {
            throw ContractViolation(description: "a violated CHECK: found \(String(describing: failure))")
        }
        let count = try await database.change { db in
            try Int.fetchOne(db, sql: "SELECT count(*) FROM driver WHERE driver_id = 'failing'")
        }
        try EventStoreContract.expect(count, 0, "drivers of the failed change")
    }

    @Sendable private static func erased(_ database: any SQLDatabase) async throws {
        let failure = await failure { try await database.change { _ in throw DriverErased() } }
        try EventStoreContract.expect(failure, .driverErased, "failure")
    }

    @Sendable private static func unreadable(_ database: any SQLDatabase) async throws {
        for sql in ["SELECT NULL", "SELECT 'text'"] {
            let failure = await failure {
                _ = try await database.read { db in try SQLRow.fetchAll(db, sql: sql).map { try $0[0] as Int64 } }
            }
            guard case .unavailable = failure else {
                throw ContractViolation(description: "\(sql): found \(String(describing: failure))")
            }
        }
    }

    private static func failure(_ body: () async throws -> Void) async -> StoreFailure? {
        do {
            try await body()
            return nil
        } catch {
            return error as? StoreFailure
        }
    }
}
