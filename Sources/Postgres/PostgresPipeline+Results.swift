// Matches libpq's results with the calls, and converts the server's errors to `PostgresError`.

extension PostgresPipeline {
    mutating func takeResults() {
        while loss == nil, !expected.isEmpty {
            switch libpq.nextResult() {
            case .notYet: return
            case .result(let result): take(result)
            case .endOfStatement: takeEnd()
            }
        }
    }

    /// Takes the results that had arrived when the connection was lost, and then fails all calls. The last result may
    /// contain the server's reason for closing the connection. Always returns false, for `advance` to return: nothing
    /// is left to read.
    mutating func takeLastResults() -> Bool {
        takeResults()
        if loss == nil { loseByFailure() }
        return false
    }

    mutating func loseByFailure() {
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
        // Without an explicit transaction, the Sync commits the statements of its call. This error means that the
        // commit failed, for example because of a deferred constraint. The answer to the Sync still follows.
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
        // In a failed transaction, COMMIT rolls back and the server reports success. Here this counts as an error.
        if result.command == "ROLLBACK", sent.first?.nextQuery?.statement.isCommit == true {
            let error = PostgresError(
                .server(sqlState: SQLState.inFailedTransaction),
                "COMMIT rolled back, because the transaction had failed.")
            sent.updateFirst { $0.fail(error) }
        }
        sent.updateFirst { $0.add(result) }
    }

    private mutating func fail(with result: LibpqResult, _ name: String) {
        // A statement that was skipped after an error has no error of its own.
        guard result.status == .error else { return }
        let state = result.sqlState ?? ""
        let error = PostgresError(
            .server(sqlState: state), "PostgreSQL rejected \"\(name)\": \(text(of: result))",
            constraint: result.constraint)
        sent.updateFirst { $0.fail(error) }
    }

    /// Returns the server's error for logs, without the detail and without messages that may quote values.
    private func text(of result: LibpqResult) -> String {
        guard let state = result.sqlState else { return redact(libpq.failure.message) }
        let message = SQLState.messageHasNoValues(state) ? result.message ?? "" : ""
        let constraint = result.constraint.map { " (constraint \($0))" } ?? ""
        return message.isEmpty ? "SQLSTATE \(state)\(constraint)" : "\(redact(message)) (SQLSTATE \(state))"
    }

    /// Ends the oldest sent call after all its answers have arrived. If the server rejected this call because an
    /// earlier call had failed, moves the call to `rejected`, to be sent again.
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
        // Two errors make the connection unusable:
        //
        // - The server no longer accepts writes. Another server may now be the primary.
        // - The pipeline's ROLLBACK, a call without a caller, failed. The session is still in a failed transaction.
        if call.error?.sqlState == SQLState.readOnlyTransaction || call.error != nil && call.caller == nil {
            lose(PostgresError(.connectionLost, "The connection was closed: \(call.error?.message ?? "")"))
        }
    }

    private mutating func loseOrder() {
        lose(PostgresError(.connectionLost, "The server's answers are not in the order of the calls."))
    }
}

extension PostgresStatement {
    fileprivate var isCommit: Bool {
        ["COMMIT", "END"].contains(sql.prefix { $0.isLetter }.uppercased())
    }
}
