// The calls of one connection, in the order in which libpq sends them and the server answers them. Nothing here waits.
//
// Each call is one segment: its statements and a Sync. After an error the server skips the rest of the segment. A
// statement that the connection has not prepared yet is prepared in a segment of its own before the call, so that the
// error of another statement cannot prevent the preparation.
//
// If a segment fails within an explicit transaction, the session stays in the failed transaction. Segments that were
// sent before this was known are rejected without effect (SQLSTATE 25P02). The pipeline then waits until all is
// answered, sends ROLLBACK, and sends the rejected calls again.

internal import Sockets

struct PostgresPipeline {
    private let libpq: LibpqConnection
    private let redact: @Sendable (String) -> String
    private let rollbackTimeoutMilliseconds: Int

    private var waiting = FirstInFirstOut<PostgresCall>()
    private var sent = FirstInFirstOut<PostgresCall>()
    /// Calls that were rejected because of an earlier call's failed transaction.
    private var rejected: [PostgresCall] = []
    private var expected = FirstInFirstOut<Reply>()
    /// Whether libpq will next report the end of a statement's results.
    private var expectsEnd = false
    private var prepared: [PreparedKey: String] = [:]
    private var lastNumber = 0
    /// The status after the last answered Sync. While further calls are under way, libpq does not tell whether the
    /// transaction failed.
    private(set) var transactionStatus = LibpqConnection.TransactionStatus.none
    /// Whether the call that was answered last failed, and others were sent before that was known.
    private var followsFailure = false
    /// Why the connection is unusable; nil while it is usable.
    private(set) var loss: PostgresError?
    /// The callers to be resumed. They are resumed outside the connection's lock.
    private var finished: [(PostgresCall.Caller, PostgresCall.Outcome)] = []

    private enum Reply {
        case preparation(PreparedKey)
        case endOfPreparations
        case query
        case endOfCall
        case script
    }

    /// A statement is prepared for one list of parameter types.
    fileprivate struct PreparedKey: Hashable {
        let statement: PostgresStatement
        let types: [PostgresType]
    }

    /// How often input is read in one round of the loop, at about 8 KiB or more each.
    private static let readsMax = 64
    /// How many further reads empty OpenSSL's buffer when the socket is empty: it holds at most one record (16 KiB), and
    /// libpq reads at least 8 KiB of it at a time.
    private static let readsOfOneRecord = 2
    /// PostgreSQL cuts the names of prepared statements at 63 bytes.
    private static let nameBytesMax = 40

    init(_ libpq: LibpqConnection, rollbackTimeoutMilliseconds: Int, redact: @escaping @Sendable (String) -> String) {
        self.libpq = libpq
        self.rollbackTimeoutMilliseconds = rollbackTimeoutMilliseconds
        self.redact = redact
    }

    /// Whether no call is under way and no transaction is open.
    var isIdle: Bool {
        loss == nil && waiting.isEmpty && sent.isEmpty && rejected.isEmpty && transactionStatus == .none
    }

    /// The earliest deadline of a call that is not answered.
    var earliestDeadline: Deadline {
        (sent.all + rejected + waiting.all).lazy.map(\.deadline).min() ?? .never
    }

    mutating func takeFinished() -> [(PostgresCall.Caller, PostgresCall.Outcome)] {
        defer { finished = [] }
        return finished
    }

    // MARK: - Calls

    mutating func add(_ call: PostgresCall) {
        if let loss { return finish(call, .failure(PostgresError(.connectionLost, loss.message))) }
        if call.deadline.hasPassed {
            return finish(call, .failure(PostgresError(.timedOut, "The deadline passed before the call was sent.")))
        }
        waiting.append(call)
    }

    /// Sends and reads until the socket takes no more and has no more. Returns whether something is left to read,
    /// because other descriptors of the loop come first.
    mutating func advance() -> Bool {
        var readsOfEmptySocket = 0
        for _ in 0..<Self.readsMax {
            if loss != nil { return false }
            sendWaiting()
            // Writing and reading alternate: the server may stop reading until its answers are read.
            guard loss == nil, libpq.flush() else { return takeLastResults() }
            guard libpq.consumeInput() else { return takeLastResults() }
            takeResults()
            if loss != nil { return false }
            if mayContinueSending { continue }
            if libpq.hasUnreadInput {
                readsOfEmptySocket = 0
            } else if libpq.isEncrypted && readsOfEmptySocket < Self.readsOfOneRecord {
                readsOfEmptySocket += 1
            } else {
                return false
            }
        }
        return true
    }

    /// Fails the calls whose deadline has passed, and with them the connection: the answers that still arrive would
    /// otherwise be taken for those of later calls.
    mutating func failTimedOut() {
        guard earliestDeadline.hasPassed else { return }
        lose(PostgresError(.timedOut, "PostgreSQL did not answer in time."))
    }

    /// Makes the connection unusable and fails all calls. A second call does nothing.
    mutating func lose(_ error: PostgresError) {
        if loss != nil { return }
        loss = error
        let inDoubt = sent.all.filter { $0.caller != nil }
        let unsent = rejected + waiting.all
        (sent, waiting, rejected, expected) = (FirstInFirstOut(), FirstInFirstOut(), [], FirstInFirstOut())
        for call in inDoubt {
            finish(call, .failure((call.error ?? failure(error, of: call)).leavingCommitInDoubt()))
        }
        for call in unsent { finish(call, .failure(failure(error, of: call))) }
        libpq.finish()
    }

    /// Returns the failure of a call whose connection is lost. Only calls whose own deadline has passed are timed out.
    private func failure(_ error: PostgresError, of call: PostgresCall) -> PostgresError {
        if error.kind == .timedOut && !call.deadline.hasPassed {
            return PostgresError(.connectionLost, "The connection was closed because another call timed out.")
        }
        return error
    }

    private mutating func finish(_ call: PostgresCall, _ outcome: PostgresCall.Outcome) {
        if let caller = call.caller { finished.append((caller, outcome)) }
    }
}

// MARK: - Sending

extension PostgresPipeline {
    /// Whether a call can be sent before another answer arrives.
    private var mayContinueSending: Bool {
        if needsRollback || !rejected.isEmpty { return sent.isEmpty }
        guard let call = waiting.first else { return false }
        if case .script = sent.first?.work { return false }
        if case .script = call.work { return sent.isEmpty }
        return true
    }

    private var needsRollback: Bool { transactionStatus == .failed }

    private mutating func sendWaiting() {
        while loss == nil, mayContinueSending {
            if sent.isEmpty { followsFailure = false }
            if needsRollback {
                transactionStatus = .none
                sendRollback()
            }
            if !rejected.isEmpty {
                waiting.prepend(rejected)
                rejected = []
            }
            guard let call = waiting.popFirst() else { continue }
            let isSent = send(call)
            sent.append(call)
            if !isSent { loseByFailure() }
        }
    }

    private mutating func sendRollback() {
        let statement = PostgresStatement("rollback", "ROLLBACK")
        let deadline = Deadline.inMilliseconds(rollbackTimeoutMilliseconds)
        guard let query = try? EncodedQuery(PostgresQuery(statement)) else { return }
        let call = PostgresCall(.segment([query]), until: deadline, caller: nil)
        // ROLLBACK is the only statement that can be prepared in a failed transaction, besides COMMIT.
        let isSent = send(call)
        sent.append(call)
        if !isSent { loseByFailure() }
    }

    private mutating func send(_ call: PostgresCall) -> Bool {
        switch call.work {
        case .script(let sql):
            expected.append(.script)
            return libpq.sendScript(sql)
        case .segment(let queries):
            guard sendPreparations(queries) else { return false }
            for query in queries {
                guard let name = prepared[query.key], libpq.sendQuery(name, query.parameters) else { return false }
                expected.append(.query)
            }
            expected.append(.endOfCall)
            return libpq.sendSync()
        }
    }

    private mutating func sendPreparations(_ queries: [EncodedQuery]) -> Bool {
        var isNeeded = false
        for query in queries where prepared[query.key] == nil {
            lastNumber += 1
            let name = "\(query.statement.name.prefixOfBytes(Self.nameBytesMax)) \(lastNumber)"
            guard libpq.sendPrepare(name, query.statement.sql, query.parameters.types) else { return false }
            prepared[query.key] = name
            expected.append(.preparation(query.key))
            isNeeded = true
        }
        if !isNeeded { return true }
        expected.append(.endOfPreparations)
        return libpq.sendSync()
    }
}

// MARK: - Results

extension PostgresPipeline {
    private mutating func takeResults() {
        while loss == nil, !expected.isEmpty {
            switch libpq.nextResult() {
            case .notYet: return
            case .result(let result): take(result)
            case .endOfStatement: takeEnd()
            }
        }
    }

    /// Takes the results that arrived before the connection was lost. The last of them may be the server's reason.
    private mutating func takeLastResults() -> Bool {
        takeResults()
        if loss == nil { loseByFailure() }
        return false
    }

    private mutating func loseByFailure() {
        lose(PostgresError(.connectionLost, "The connection was lost: \(redact(libpq.failure.message))"))
    }

    private mutating func take(_ result: LibpqResult) {
        if libpq.isCommitUnconfirmed {
            return lose(
                PostgresError(
                    .connectionLost,
                    "The server stopped waiting for its standby: the commit is on the primary only."))
        }
        guard let reply = expected.first, !expectsEnd else { return loseOrder() }
        if result.status == .error && result.endsSession {
            return lose(PostgresError(.connectionLost, "The connection was lost: \(text(of: result))"))
        }
        switch (reply, result.status) {
        case (.preparation, .success): _ = expected.popFirst()
        case (.preparation(let key), .error), (.preparation(let key), .aborted):
            prepared[key] = nil
            fail(with: result, key.statement.name)
            _ = expected.popFirst()
        case (.query, .success):
            takeRows(result)
            _ = expected.popFirst()
        case (.query, .error), (.query, .aborted):
            fail(with: result, sent.first?.nextQuery?.statement.name ?? "")
            _ = expected.popFirst()
        // The commit at the Sync failed, for example because of a deferred constraint. The answer to the Sync follows.
        case (.endOfCall, .error): fail(with: result, "Sync")
        case (.endOfPreparations, .sync):
            _ = expected.popFirst()
            return
        case (.endOfCall, .sync):
            _ = expected.popFirst()
            return endCall()
        case (.script, .success): return
        case (.script, .error): return fail(with: result, "script")
        default: return loseOrder()
        }
        expectsEnd = true
    }

    private mutating func takeEnd() {
        if expectsEnd {
            expectsEnd = false
            return
        }
        guard case .script = expected.first else { return loseOrder() }
        _ = expected.popFirst()
        guard libpq.endScript() else { return loseByFailure() }
        endCall()
    }

    private mutating func takeRows(_ result: LibpqResult) {
        // In a failed transaction, COMMIT rolls back and reports success.
        if result.command == "ROLLBACK", sent.first?.nextQuery?.statement.isCommit == true {
            let error = PostgresError(
                .server(sqlState: SQLState.inFailedTransaction),
                "COMMIT rolled back, because the transaction had failed.")
            sent.updateFirst { $0.fail(error) }
        }
        sent.updateFirst { $0.add(result) }
    }

    private mutating func fail(with result: LibpqResult, _ name: String) {
        // A skipped statement has no error of its own.
        guard result.status == .error else { return }
        let state = result.sqlState ?? ""
        let error = PostgresError(
            .server(sqlState: state), "PostgreSQL rejected \"\(name)\": \(text(of: result))",
            constraint: result.constraint)
        sent.updateFirst { $0.fail(error) }
    }

    /// The server's error for logs. Its detail, and some messages, quote values; they are left out.
    private func text(of result: LibpqResult) -> String {
        guard let state = result.sqlState else { return redact(libpq.failure.message) }
        let message = SQLState.messageHasNoValues(state) ? result.message ?? "" : ""
        let constraint = result.constraint.map { " (constraint \($0))" } ?? ""
        return message.isEmpty ? "SQLSTATE \(state)\(constraint)" : "\(redact(message)) (SQLSTATE \(state))"
    }

    /// Ends the first call that was sent: all its answers have arrived.
    private mutating func endCall() {
        transactionStatus = libpq.transactionStatus
        guard var call = sent.popFirst() else { return loseOrder() }
        let isRejected =
            followsFailure && call.results.isEmpty && call.error?.sqlState == SQLState.inFailedTransaction
        followsFailure = call.error != nil
        if isRejected, call.caller != nil {
            call.reset()
            rejected.append(call)
            return
        }
        finish(call, call.outcome)
        // A server that no longer accepts writes was demoted, and another one may be the primary.
        if call.error?.sqlState == SQLState.readOnlyTransaction || call.error != nil && call.caller == nil {
            lose(PostgresError(.connectionLost, "The connection was closed: \(call.error?.message ?? "")"))
        }
    }

    private mutating func loseOrder() {
        lose(PostgresError(.connectionLost, "The server's answers are not in the order of the calls."))
    }
}

extension EncodedQuery {
    fileprivate var key: PostgresPipeline.PreparedKey {
        PostgresPipeline.PreparedKey(statement: statement, types: parameters.types)
    }
}

extension PostgresStatement {
    fileprivate var isCommit: Bool {
        ["COMMIT", "END"].contains(sql.prefix { $0.isLetter }.uppercased())
    }
}

extension String {
    /// Returns the longest prefix of whole characters that has at most this many bytes in UTF-8.
    fileprivate func prefixOfBytes(_ countMax: Int) -> Substring {
        var prefix = self[...]
        while prefix.utf8.count > countMax { prefix.removeLast() }
        return prefix
    }
}
