// The calls of one connection, in the order in which libpq sends them and the server answers them. Nothing here blocks.
//
// Each call is one segment: its statements and a Sync. After an error, the server skips the rest of the segment.
// Statements are prepared in an earlier segment of their own, so an error in the call cannot skip a preparation.
//
// If a segment fails within an explicit transaction, the session stays in the failed transaction. The server then
// rejects the later segments that were already sent (SQLSTATE 25P02). After these answers, the pipeline sends ROLLBACK
// and then the rejected calls again.

internal import Sockets

struct PostgresPipeline {
    let libpq: LibpqConnection
    let redact: @Sendable (String) -> String
    let rollbackTimeoutMilliseconds: Int

    var waiting = FirstInFirstOut<PostgresCall>()
    var sent = FirstInFirstOut<PostgresCall>()
    /// Calls that were rejected because of an earlier call's failed transaction.
    var rejected: [PostgresCall] = []
    var expected = FirstInFirstOut<Reply>()
    /// Whether libpq will next report the end of a statement's results.
    var expectsEnd = false
    var prepared: [PreparedKey: String] = [:]
    var lastNumber = 0
    /// The transaction status after the last answered Sync. libpq does not report a failed transaction while further
    /// calls are in progress.
    var transactionStatus = LibpqConnection.TransactionStatus.none
    /// Whether the most recently answered call failed. If so, the server may reject calls that were sent before this
    /// failure was known.
    var followsFailure = false
    /// The time at which `failTimedOut` must be called. It is never later than the earliest deadline of the unanswered
    /// calls. It may be earlier, because it is not updated when a call is answered.
    var nextCheck = Deadline.never
    /// Why the connection is unusable; nil while it is usable.
    private(set) var loss: PostgresError?
    /// The callers to be resumed, after the connection's lock is released.
    private var finished: [(PostgresCall.Caller, PostgresCall.Outcome)] = []

    enum Reply {
        case preparation(PreparedKey)
        case endOfPreparations
        case query
        case endOfCall
        case script
    }

    /// A statement is prepared once for each list of parameter types.
    struct PreparedKey: Hashable {
        let statement: PostgresStatement
        let types: [PostgresType]
    }

    /// The maximum number of reads in one round of the loop. Each read returns about 8 KiB or more.
    private static let readsMax = 64
    /// The number of further reads when the socket is empty, because OpenSSL may still hold decrypted bytes. These are
    /// at most one record (16 KiB), and each of libpq's reads takes at least 8 KiB.
    private static let readsOfOneRecord = 2

    init(_ libpq: LibpqConnection, rollbackTimeoutMilliseconds: Int, redact: @escaping @Sendable (String) -> String) {
        self.libpq = libpq
        self.rollbackTimeoutMilliseconds = rollbackTimeoutMilliseconds
        self.redact = redact
    }

    /// Whether no call is under way and no transaction is open.
    var isIdle: Bool {
        loss == nil && waiting.isEmpty && sent.isEmpty && rejected.isEmpty && transactionStatus == .none
    }

    /// How many calls are sent and not answered.
    var sentCount: Int { sent.count }

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
        nextCheck = min(nextCheck, call.deadline)
        waiting.append(call)
    }

    /// Sends until the socket accepts no more, and reads until the socket is empty, but at most `readsMax` times. If it
    /// returns true, the caller must continue in the loop's next round, so that other descriptors get their turn.
    mutating func advance() -> Bool {
        var readsOfEmptySocket = 0
        for _ in 0..<Self.readsMax {
            if loss != nil { return false }
            sendWaiting()
            // Writing and reading alternate, because the server may stop reading until its answers are read.
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

    /// Updates `nextCheck`. If the deadline of a call has passed, makes the connection unusable and fails all calls.
    ///
    /// After a missed deadline, the connection cannot be used further: a late answer would be taken for the answer to
    /// another call.
    mutating func failTimedOut() {
        nextCheck = (sent.all + rejected + waiting.all).lazy.map(\.deadline).min() ?? .never
        if nextCheck.hasPassed { lose(PostgresError(.timedOut, "PostgreSQL did not answer in time.")) }
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

    /// Returns the failure of a call whose connection is lost because of `error`. It is `.timedOut` only if the call's
    /// own deadline has passed.
    private func failure(_ error: PostgresError, of call: PostgresCall) -> PostgresError {
        if error.kind == .timedOut && !call.deadline.hasPassed {
            return PostgresError(.connectionLost, "The connection was closed because another call timed out.")
        }
        return error
    }

    mutating func finish(_ call: PostgresCall, _ outcome: PostgresCall.Outcome) {
        if let caller = call.caller { finished.append((caller, outcome)) }
    }
}
