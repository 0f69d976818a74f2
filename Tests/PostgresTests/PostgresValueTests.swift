import Testing

@testable import Postgres

@Suite struct PostgresValueTests {
    @Test func `text is read from varchar, and int8 only from int8`() {
        #expect(PostgresType(rawValue: 1043).isReadable(as: .text))
        #expect(!PostgresType.int4.isReadable(as: .int8))
        #expect(!PostgresType.bytea.isReadable(as: .text))
    }
}
