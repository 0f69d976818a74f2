// Connections for the tests, and shorter names for queries.

import Logging
import Sockets
import TestSupport

@testable import Postgres

enum Loops {
    static let group: EventLoopGroup = {
        do { return try EventLoopGroup(count: 2) } catch { preconditionFailure("no event loop: \(error)") }
    }()
}

extension PostgresServer {
    func with<Answer>(
        _ url: String? = nil, _ configure: (inout PostgresConfiguration) -> Void = { _ in },
        _ body: (PostgresConnection) async throws -> Answer
    ) async throws -> Answer {
        var configuration = try PostgresConfiguration(url: url ?? self.url())
        configure(&configuration)
        let connection = try await PostgresConnection.open(configuration, on: Loops.group.next())
        defer { connection.close() }
        return try await body(connection)
    }
}

extension PostgresQuery {
    /// A query whose name is its text.
    static func sql(_ text: String, _ parameters: PostgresValue...) -> PostgresQuery {
        PostgresQuery(PostgresStatement(text, text), parameters)
    }
}

extension PostgresConnection {
    /// Runs one statement and returns its result.
    func one(_ text: String, _ parameters: PostgresValue...) async throws -> PostgresResult {
        let results = try await run([PostgresQuery(PostgresStatement(text, text), parameters)])
        return results[0]
    }

    /// Returns the error of the call; nil if it succeeds.
    func failure(_ queries: [PostgresQuery], until deadline: Deadline? = nil) async -> PostgresError? {
        do throws(PostgresError) {
            _ = try await run(queries, until: deadline)
            return nil
        } catch {
            return error
        }
    }
}

/// A lock that keeps a call of another connection waiting.
struct Gate {
    private let connection: PostgresConnection
    private let key: PostgresValue

    /// Runs the body with a closed gate. If the body does not open the gate, the gate opens at the end of the body.
    static func with(_ server: PostgresServer, _ body: (Gate) async throws -> Void) async throws {
        try await server.with { (connection) async throws in
            let gate = Gate(connection: connection, key: .int8(.random(in: .min ... .max)))
            _ = try await connection.run([.sql("SELECT pg_advisory_lock($1)::text", gate.key)])
            try await body(gate)
        }
    }

    /// The statement that waits for the gate.
    var wait: PostgresQuery { .sql("SELECT pg_advisory_xact_lock($1)::text", key) }

    func open() async throws {
        _ = try await connection.run([.sql("SELECT pg_advisory_unlock($1)", key)])
    }
}

/// Returns true as soon as the condition holds, or false if it does not hold within ten seconds.
func eventually(_ condition: () async throws -> Bool) async rethrows -> Bool {
    let deadline = Deadline.inSeconds(10)
    while !deadline.hasPassed {
        if try await condition() { return true }
        try? await Task.sleep(for: .milliseconds(5))
    }
    return try await condition()
}
