// Tests that values of every type are sent to the server and read back.

import TestSupport
import Testing

@testable import Postgres

@Suite struct PostgresValueTests {
    @Test func `text is read from varchar, and int8 only from int8`() {
        #expect(PostgresType(rawValue: 1043).isReadable(as: .text))
        #expect(!PostgresType.int4.isReadable(as: .int8))
        #expect(!PostgresType.bytea.isReadable(as: .text))
    }

    @Test func `scalars come back as they were sent`() async throws {
        try await PostgresServer.shared().with { (connection) async throws in
            for value in [true, false] {
                #expect(try await connection.one("SELECT $1", .bool(value))[0].bool(0) == value)
            }
            for value in [Int16.min, -1, 0, .max] {
                #expect(try await connection.one("SELECT $1", .int2(value))[0].int2(0) == value)
            }
            for value in [Int32.min, -1, 0, .max] {
                #expect(try await connection.one("SELECT $1", .int4(value))[0].int4(0) == value)
            }
            for value in [Int64.min, -1, 0, .max] {
                #expect(try await connection.one("SELECT $1", .int8(value))[0].int8(0) == value)
            }
            for value in ["", "a", "Käse \u{1F9C0} 'quoted' \\", String(repeating: "ä", count: 100_000)] {
                #expect(try await connection.one("SELECT $1", .text(value))[0].text(0) == value)
            }
            for count in [0, 1, 1 << 20] {
                let value = (0..<count).map { UInt8(truncatingIfNeeded: $0 &* 31) }
                #expect(try await connection.one("SELECT $1", .bytea(value))[0].bytea(0) == value)
            }
        }
    }

    @Test func `the server sees the values, not only their bytes`() async throws {
        try await PostgresServer.shared().with { (connection) async throws in
            let row = try await connection.one(
                "SELECT $1::text || $2::text || $3::text || $4::text || $5::text || encode($6, 'hex')", .bool(true),
                .int2(-2), .int4(-4), .int8(-8), .text("text"), .bytea([0, 255]))[0]
            #expect(try row.text(0) == "true-2-4-8text00ff")
            let arrays = try await connection.one(
                "SELECT $1::text || $2::text || $3::text || $4::text || $5::text", .bools([true, nil]),
                .int2s([1, nil]), .int8s([-8, nil]), .texts(["a,b", "", nil]), .byteas([[1], nil]))[0]
            #expect(try arrays.text(0) == #"{t,NULL}{1,NULL}{-8,NULL}{"a,b","",NULL}{"\\x01",NULL}"#)
        }
    }

    @Test func `arrays come back as they were sent, also empty and with NULL`() async throws {
        try await PostgresServer.shared().with { (connection) async throws in
            for value: [Bool?] in [[], [nil], [true, false, nil]] {
                #expect(try await connection.one("SELECT $1", .bools(value))[0].bools(0) == value)
            }
            for value: [Int16?] in [[], [nil], [.min, nil, .max]] {
                #expect(try await connection.one("SELECT $1", .int2s(value))[0].int2s(0) == value)
            }
            for value: [Int64?] in [[], [nil], [.min, nil, .max], (0..<10_000).map { $0 }] {
                #expect(try await connection.one("SELECT $1", .int8s(value))[0].int8s(0) == value)
            }
            for value: [String?] in [[], [nil], ["", nil, "{\"a\",b}", "NULL"]] {
                #expect(try await connection.one("SELECT $1", .texts(value))[0].texts(0) == value)
            }
            for value: [[UInt8]?] in [[], [nil], [[], nil, [0], [UInt8](repeating: 7, count: 1 << 20)]] {
                #expect(try await connection.one("SELECT $1", .byteas(value))[0].byteas(0) == value)
            }
        }
    }

    @Test func `an array of parameters is unnested with its NULLs`() async throws {
        try await PostgresServer.shared().with { (connection) async throws in
            let result = try await connection.one(
                "SELECT * FROM unnest($1, $2) u(id, name)", .int8s([1, 2]), .texts(["a", nil]))
            #expect(result.rowCount == 2)
            #expect(try result.rows.map { try $0.int8(0) } == [1, 2])
            #expect(try result.rows.map { try $0.optionalText(1) } == ["a", nil])
        }
    }

    @Test func `a parameter is NULL in one call and has a type in the next`() async throws {
        try await PostgresServer.shared().with { (connection) async throws in
            _ = try await connection.runScript("CREATE TEMPORARY TABLE t (id int4, name text, big int8)")
            let insert = "INSERT INTO t VALUES ($1, $2, $3)"
            let first = try await connection.one(insert, .null, .null, .null)
            #expect(first.affectedCount == 1 && first.rowCount == 0)
            _ = try await connection.one(insert, .int4(4), .text("four"), .null)
            _ = try await connection.one(insert, .null, .null, .int8(8))
            let rows = try await connection.one("SELECT * FROM t ORDER BY id, big")
            #expect(try rows.rows.map { try $0.optionalInt4(0) } == [4, nil, nil])
            #expect(try rows.rows.map { try $0.optionalInt8(2) } == [nil, 8, nil])
            #expect(try rows[1].isNull(1) && !rows[0].isNull(1))
            let update = try await connection.one("UPDATE t SET name = 'x' WHERE id IS NULL")
            #expect(update.affectedCount == 2)
        }
    }

    @Test func `a value of an unexpected type is an error`() async throws {
        try await PostgresServer.shared().with { (connection) async throws in
            let row = try await connection.one("SELECT 1::int4, NULL::int8, 1.5::numeric, ARRAY[[1,2],[3,4]]::int8[]")[
                0]
            for read: (PostgresRow) throws -> Any in [
                { try $0.int8(0) }, { try $0.text(0) }, { try $0.int8(1) }, { try $0.text(2) }, { try $0.bytea(2) },
                { try $0.int8s(3) }, { try $0.int8(4) }, { try $0.int8(-1) }, { try $0.int8s(0) },
            ] {
                let error = #expect(throws: PostgresError.self) { try read(row) }
                #expect(error?.kind == .unreadable)
            }
            #expect(try row.optionalInt8(1) == nil)
            #expect(try row.int4(0) == 1)
        }
    }

    @Test func `bytes that are not of the type's form are an error`() {
        let hostile: [[UInt8]] = [
            [], [0, 0, 0, 1], [0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 20, 0x7f, 0xff, 0xff, 0xff, 0, 0, 0, 1],
            [0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 20, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 9, 1],
            [0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 20, 0, 0, 0, 1, 0, 0, 0, 1, 0xff, 0xff, 0xff, 0xfe],
            [0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 20, 0xff, 0xff, 0xff, 0xff, 0, 0, 0, 1],
            [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 20, 1], [0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0, 0, 0, 0, 20],
        ]
        for bytes in hostile {
            let value = bytes.withUnsafeBytes { bytes in
                var reader = ValueReader(bytes)
                return reader.array(of: .int8) { $0.wholeNumber(Int64.self) }
            }
            #expect(value == nil)
        }
        let text = [0xff, 0xfe].withUnsafeBytes { bytes in
            var reader = ValueReader(UnsafeRawBufferPointer(rebasing: bytes[..<1]))
            return reader.text()
        }
        #expect(text == nil)
    }
}
