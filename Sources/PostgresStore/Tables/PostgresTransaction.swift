// A transaction of SharedTables on a connection. It blocks its thread while PostgreSQL works.

import Engine
import JourneyModel
import Postgres
import SharedTables
import Sockets

/// The class is not Sendable, because a transaction is used only on the thread that runs its closure.
final class PostgresTransaction: SQLTransaction {
    private let connection: PostgresConnection
    private let statements: TableStatements
    private let kind: Kind
    private let until: Deadline
    /// Returns whether the caller no longer waits.
    private let isCancelled: () -> Bool
    private var hasBegun = false
    /// The first error. After this error, no further statement is sent, even if the closure caught the error. The
    /// connection has rolled the transaction back, so a further statement would run outside of it.
    private(set) var failure: PostgresError?
    /// Nil as long as the transaction has changed nothing.
    private(set) var number: TransactionNumber?

    enum Kind: Sendable {
        case change, read

        fileprivate var begin: PostgresStatement {
            switch self {
            case .change: PostgresStatement("begin_change", "BEGIN ISOLATION LEVEL SERIALIZABLE")
            case .read: PostgresStatement("begin_read", "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
            }
        }
    }

    init(
        _ kind: Kind, on connection: PostgresConnection, _ statements: TableStatements, until: Deadline,
        isCancelled: @escaping () -> Bool = { false }
    ) {
        self.kind = kind
        self.connection = connection
        self.statements = statements
        self.until = until
        self.isCancelled = isCancelled
    }

    @discardableResult
    func execute(sql: String, arguments: SQLArguments) throws -> Int {
        try run(query(sql, arguments)).affectedCount
    }

    func fetchAll(sql: String, arguments: SQLArguments) throws -> [SQLRow] {
        try run(query(sql, arguments)).rows.map { row in
            SQLRow(try (0..<row.columnCount).map { SQLValue(try row.value($0)) ?? .null })
        }
    }

    /// Returns the `driver.id` of the driver. Adds the driver if there is no row for it. If another transaction is
    /// adding the same driver, waits for that transaction, or fails with 40001 (serialization failure).
    func addDriver(_ driver: DriverID, at now: Moment) throws -> Int64 {
        // `StoredDriver(new:)` chooses a random id. If a driver with this id exists, the next pass tries a new id.
        for _ in 0..<3 {
            let new = StoredDriver(new: driver)
            if try run(DriverStatements.addQuery(new, at: now)).affectedCount == 1 { return new.id }
            if let stored = try run(PostgresQuery(Self.driver, [.text(driver.rawValue), .int2(new.lane)])).rows.first {
                return try stored.int8(0)
            }
        }
        throw UnreadableColumn(name: "driver.id")
    }

    private static let driver = PostgresStatement(
        "driver_number", "SELECT id FROM driver WHERE driver_id = $1 AND lane = $2")

    func session(_ sessionID: String) throws -> ReferencedSession? {
        let found = try run(PostgresQuery(Self.session, [.int2(Lane.of(sessionID)), .text(sessionID)]))
        guard let row = found.rows.first, let reference = SessionReference(.text(sessionID)) else { return nil }
        return ReferencedSession(
            reference: reference, driver: try row.int8(0), driverID: DriverID(try row.text(1)),
            journey: try Journey(row, at: 2), lastEventAt: try row.optionalMoment(10))
    }

    private static let session = PostgresStatement(
        "session_of_text",
        """
        WITH owned AS MATERIALIZED (SELECT owner FROM session_owner WHERE lane = $1 AND session_id = $2)
        SELECT driver.id, driver.driver_id, driver.state, driver.session_id, driver.target_charger,
            driver.next_target_charger, driver.grace_deadline_ms, driver.hard_deadline_ms, driver.ended_by,
            driver.previous_session_id, driver.head_corrected_at_ms
        FROM owned JOIN driver ON driver.id = owned.owner
        """)

    /// Commits if any statement was run. Even if the transaction wrote nothing, its caller may tell a client that the
    /// read data is stored. So the COMMIT waits until the synchronous standby has the data.
    func commit() throws(PostgresError) {
        if let failure { throw failure }
        guard hasBegun else { return }
        let confirms = try needsConfirmation()
        let confirm = confirms ? [PostgresQuery(.confirm)] : []
        do throws(PostgresError) {
            _ = try connection.runBlocking(confirm + [PostgresQuery(.commit)], until: statementDeadline)
        } catch {
            // On Citus, a serialization failure on another server makes the coordinator roll back. The coordinator
            // reports it as an internal error (XX000). This error is converted to 40001, so that the transaction is run
            // again.
            guard error.sqlState == "XX000" else { throw error }
            throw PostgresError(.server(sqlState: Self.serializationFailure), error.message)
        }
        if confirms || number != nil { connection.noteCommit() }
    }

    private func needsConfirmation() throws(PostgresError) -> Bool {
        guard kind == .change, number == nil else { return false }
        if !connection.isConfirmed { return true }
        return try connection.runBlocking([PostgresQuery(.hasStandby)], until: statementDeadline)[0][0].bool(0)
    }

    private static let serializationFailure = "40001"

    // MARK: Statements

    private func query(_ sql: String, _ arguments: SQLArguments) throws -> PostgresQuery {
        PostgresQuery(statements.statement(sql), try arguments.values.map { try PostgresValue($0) })
    }

    /// Sends BEGIN in the same round trip as the first statement. PostgreSQL gives a transaction its number at the
    /// first change. So each statement also asks for the number until it is known.
    private func run(_ query: PostgresQuery) throws(PostgresError) -> PostgresResult {
        if let failure { throw failure }
        do throws(PostgresError) {
            if isCancelled() { throw PostgresError(.cancelled, "The caller no longer waits.") }
            let begin = hasBegun ? [] : [PostgresQuery(kind.begin)]
            let isNumberNeeded = kind == .change && number == nil
            let ask = isNumberNeeded ? [PostgresQuery(TransactionNumber.ask)] : []
            let results = try connection.runBlocking(begin + [query] + ask, until: statementDeadline)
            hasBegun = true
            if isNumberNeeded, let row = results.last?.rows.first { number = try TransactionNumber(row) }
            return results[begin.count]
        } catch {
            failure = error
            throw error
        }
    }

    /// A statement normally takes milliseconds. It fails after `roundTripSeconds`, so that the request has time for
    /// another attempt.
    private var statementDeadline: Deadline { min(until, .inSeconds(BatchRun.roundTripSeconds)) }
}

/// A text that PostgreSQL cannot store. The API refuses control characters in all members, so a client's text never
/// causes this error.
struct UnstorableText: Error, CustomStringConvertible {
    var description: String { "a text contains U+0000" }
}

extension PostgresValue {
    fileprivate init(_ value: SQLValue) throws(UnstorableText) {
        switch value {
        case .null: self = .null
        case .integer(let integer): self = .int8(integer)
        case .blob(let bytes): self = .bytea(bytes)
        case .text(let text):
            guard !text.utf8.contains(0) else { throw UnstorableText() }
            self = .text(text)
        }
    }
}

extension SQLValue {
    /// Returns nil for an array.
    fileprivate init?(_ value: PostgresValue) {
        switch value {
        case .null: self = .null
        case .bool(let value): self = .integer(value ? 1 : 0)
        case .int2(let value): self = .integer(Int64(value))
        case .int4(let value): self = .integer(Int64(value))
        case .int8(let value): self = .integer(value)
        case .text(let value): self = .text(value)
        case .bytea(let value): self = .blob(value)
        case .bools, .int2s, .int8s, .texts, .byteas: return nil
        }
    }
}
