// Statements, and queries: statements with the values of their parameters.

/// A statement with parameters $1, $2 and so on. Each connection prepares it before its first use. Different texts
/// should have different names, because messages and `hash(into:)` use only the name.
package struct PostgresStatement: Hashable, Sendable {
    /// The name in error messages and in the view `pg_prepared_statements`.
    package let name: String
    package let sql: String

    package init(_ name: String, _ sql: String) {
        self.name = name
        self.sql = sql
    }

    /// Hashes the name only, because the text is long.
    package func hash(into hasher: inout Hasher) {
        hasher.combine(name)
    }
}

/// A statement with the values of its parameters, in order.
package struct PostgresQuery: Sendable {
    package var statement: PostgresStatement
    package var parameters: [PostgresValue]

    package init(_ statement: PostgresStatement, _ parameters: [PostgresValue] = []) {
        self.statement = statement
        self.parameters = parameters
    }
}
