// Tests that a parameter gets a number only outside of literals, names and comments.

import Postgres
import Testing

@testable import PostgresStore

struct NumberedParametersTests {
    @Test(arguments: [
        ("SELECT 1", "SELECT 1"),
        ("SELECT ?, ?", "SELECT $1, $2"),
        ("SELECT ?2, ?1, ?12", "SELECT $2, $1, $12"),
        ("SELECT '?', ?", "SELECT '?', $1"),
        ("SELECT 'it''s ?', ?", "SELECT 'it''s ?', $1"),
        ("SELECT \"a?\"\"b?\", ?", "SELECT \"a?\"\"b?\", $1"),
        ("SELECT ? -- or ?\n, ?", "SELECT $1 -- or ?\n, $2"),
        ("SELECT ? /* '? */ , ?", "SELECT $1 /* '? */ , $2"),
        ("SELECT 1 - ?, 4 / ?", "SELECT 1 - $1, 4 / $2"),
        ("SELECT 'é?', ?", "SELECT 'é?', $1"),
        ("SELECT '?", "SELECT '?"), ("SELECT ? /* ?", "SELECT $1 /* ?"), ("?", "$1"), ("", ""),
    ])
    func `a statement is rewritten`(sql: String, expected: String) {
        #expect(NumberedParameters.sql(sql) == expected)
    }

    @Test func `a text has one statement, and each text its own name`() {
        let statements = TableStatements()
        let one = statements.statement("SELECT  ?\n FROM a")
        #expect(statements.statement("SELECT  ?\n FROM a") == one)
        #expect(one.sql == "SELECT  $1\n FROM a" && one.name == "t1 SELECT ? FROM a")
        #expect(statements.statement("SELECT ?\n FROM a").name == "t2 SELECT ? FROM a")
    }
}
