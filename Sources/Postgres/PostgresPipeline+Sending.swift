// Decides which calls of a connection may be sent now, and sends them: the preparations, the queries, and the ROLLBACK
// of a failed transaction.

internal import Sockets

extension PostgresPipeline {
    /// The name of a prepared statement is a prefix of `PostgresStatement.name` and a number. The prefix has at most
    /// this many bytes, because PostgreSQL truncates names to 63 bytes and might cut off the number.
    private static let nameBytesMax = 40

    /// Whether a call can be sent before another answer arrives.
    var mayContinueSending: Bool {
        if needsRollback || !rejected.isEmpty { return sent.isEmpty }
        guard let call = waiting.first else { return false }
        if case .script = sent.first?.work { return false }
        if case .script = call.work { return sent.isEmpty }
        return true
    }

    private var needsRollback: Bool { transactionStatus == .failed }

    mutating func sendWaiting() {
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
        nextCheck = min(nextCheck, deadline)
        guard let query = try? EncodedQuery(PostgresQuery(statement)) else { return }
        let call = PostgresCall(.segment([query]), until: deadline, caller: nil)
        // ROLLBACK can be prepared here. In a failed transaction, PostgreSQL still prepares statements that end the
        // transaction.
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

extension EncodedQuery {
    fileprivate var key: PostgresPipeline.PreparedKey {
        PostgresPipeline.PreparedKey(statement: statement, types: parameters.types)
    }
}

extension String {
    fileprivate func prefixOfBytes(_ countMax: Int) -> Substring {
        var prefix = self[...]
        while prefix.utf8.count > countMax { prefix.removeLast() }
        return prefix
    }
}
