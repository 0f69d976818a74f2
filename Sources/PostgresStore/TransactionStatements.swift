// The statements that begin and end a transaction.

package import Postgres

extension PostgresStatement {
    package static let begin = PostgresStatement("begin", "BEGIN")
    package static let commit = PostgresStatement("commit", "COMMIT")
}
