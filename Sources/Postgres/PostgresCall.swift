// One call on a connection: the queries that are sent, and the results that have arrived.

internal import Sockets

/// A query with encoded parameters.
struct EncodedQuery: Sendable {
    let statement: PostgresStatement
    let parameters: EncodedParameters

    init(_ query: PostgresQuery) throws(PostgresError) {
        // libpq passes strings as C strings, which end at U+0000.
        guard !query.statement.sql.utf8.contains(0) else {
            throw PostgresError(.unsendable, "The text of \"\(query.statement.name)\" contains U+0000.")
        }
        statement = query.statement
        parameters = try EncodedParameters(query.parameters)
    }
}

struct PostgresCall: Sendable {
    typealias Outcome = Result<[PostgresResult], PostgresError>

    /// The task or thread that waits for the outcome. It must be resumed exactly once.
    enum Caller: Sendable {
        case task(UnsafeContinuation<Outcome, Never>)
        case thread(BlockedThread)

        func resume(returning outcome: Outcome) {
            switch self {
            case .task(let task): task.resume(returning: outcome)
            case .thread(let thread): thread.resume(returning: outcome)
            }
        }
    }

    enum Work: Sendable {
        /// One segment of the pipeline, which ends with a Sync.
        case segment([EncodedQuery])
        /// Several statements in one text, sent outside the pipeline.
        case script(String)
    }

    let work: Work
    let deadline: Deadline
    /// Nil for the ROLLBACK that the pipeline itself sends after a failed transaction.
    let caller: Caller?
    private(set) var results: [PostgresResult] = []
    private(set) var error: PostgresError?

    init(_ work: Work, until deadline: Deadline, caller: Caller?) {
        self.work = work
        self.deadline = deadline
        self.caller = caller
    }

    mutating func add(_ result: LibpqResult) {
        results.append(PostgresResult(result))
    }

    /// Keeps only the first error of the call, because it causes the later errors.
    mutating func fail(_ error: PostgresError) {
        self.error = self.error ?? error
    }

    mutating func reset() {
        results = []
        error = nil
    }

    /// The query whose answer comes next; nil for a script, and when all answers have arrived.
    var nextQuery: EncodedQuery? {
        if case .segment(let queries) = work, results.count < queries.count { queries[results.count] } else { nil }
    }

    var outcome: Outcome { error.map { .failure($0) } ?? .success(results) }
}
