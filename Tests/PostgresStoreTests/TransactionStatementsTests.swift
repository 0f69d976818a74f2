import Postgres
import PostgresStore
import Testing

@Suite struct TransactionStatementsTests {
    @Test func `a transaction begins and commits`() {
        #expect(PostgresStatement.begin.sql == "BEGIN")
        #expect(PostgresStatement.commit.sql == "COMMIT")
    }
}
