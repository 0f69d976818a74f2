// One connection to PostgreSQL on its event loop. libpq encodes and decodes the protocol; the loop reports when the
// socket is ready.

package import Sockets
internal import Synchronization

/// A connection. It must be closed with `close`. The event loop keeps it alive until that call. All functions may be
/// called from any thread.
package final class PostgresConnection: Sendable {
    package let loop: EventLoop
    private let callTimeoutMilliseconds: Int
    /// Any thread may read the state. Only the event loop changes `pipeline` and `watch`.
    private let state: Mutex<State>
    private let hasConfirmed = Atomic(false)

    private struct State {
        var pipeline: PostgresPipeline
        var watch: DescriptorWatch?
        /// The tasks that wait for the end of the connection.
        var untilClosed: [UnsafeContinuation<Void, Never>] = []
    }

    /// Connects to the first usable server and sets up the session. If `deadline` is nil, the limit is
    /// `connectTimeoutMilliseconds`.
    ///
    /// - Throws: `.cannotConnect` or `.timedOut`. If the task is cancelled while libpq connects: `.cancelled`.
    package static func open(
        _ configuration: PostgresConfiguration, on loop: EventLoop, until deadline: Deadline? = nil
    ) async throws(PostgresError) -> PostgresConnection {
        let deadline = deadline ?? .inMilliseconds(configuration.connectTimeoutMilliseconds)
        let libpq = try await PostgresConnecting.connect(configuration, until: deadline)
        let connection = PostgresConnection(libpq, configuration, on: loop)
        do throws(PostgresError) {
            try await PostgresSession.setUp(connection, configuration, until: deadline)
        } catch {
            connection.close()
            // The setup of a session commits nothing, so no COMMIT is in doubt.
            throw error.kind == .timedOut
                ? PostgresError(.timedOut, error.message) : PostgresError(.cannotConnect, error.message)
        }
        return connection
    }

    private init(_ libpq: LibpqConnection, _ configuration: PostgresConfiguration, on loop: EventLoop) {
        self.loop = loop
        callTimeoutMilliseconds = configuration.callTimeoutMilliseconds
        let pipeline = PostgresPipeline(
            libpq, rollbackTimeoutMilliseconds: callTimeoutMilliseconds, redact: configuration.redacting)
        state = Mutex(State(pipeline: pipeline))
        let descriptor = libpq.descriptor
        loop.execute { self.register(descriptor) }
    }

    // MARK: - Calls

    /// Sends the queries as one segment of the pipeline, and returns their results in order. Several calls may be under
    /// way at the same time; the server answers them in order.
    ///
    /// If the queries contain no BEGIN and COMMIT, the segment is one transaction; on Citus, each statement is a
    /// transaction of its own. A transaction with BEGIN and COMMIT may extend over several calls. Until it ends, no
    /// other task may use the connection.
    ///
    /// A cancelled task still waits for the answer, because only the answer tells what was committed.
    ///
    /// - Throws: the first error of the segment. If the error leaves the session in a failed transaction, this
    ///   transaction is rolled back before the next call.
    package nonisolated(nonsending) func run(
        _ queries: [PostgresQuery], until deadline: Deadline? = nil
    ) async throws(PostgresError) -> [PostgresResult] {
        if queries.isEmpty { return [] }
        return try await call(Self.segment(queries), until: deadline).get()
    }

    /// Like `run`, but blocks the calling thread until the answer arrives or the deadline passes. Must not be called on
    /// the event loop's thread, because the loop would wait for itself. Must not be called on a thread of Swift
    /// concurrency.
    package func runBlocking(
        _ queries: [PostgresQuery], until deadline: Deadline? = nil
    ) throws(PostgresError) -> [PostgresResult] {
        if queries.isEmpty { return [] }
        let deadline = deadline ?? .inMilliseconds(callTimeoutMilliseconds)
        let thread = BlockedThread()
        let call = PostgresCall(try Self.segment(queries), until: deadline, caller: .thread(thread))
        loop.execute {
            self.change { $0.add(call) }
        }
        return try thread.outcome(until: deadline).get()
    }

    private static func segment(_ queries: [PostgresQuery]) throws(PostgresError) -> PostgresCall.Work {
        var encoded: [EncodedQuery] = []
        encoded.reserveCapacity(queries.count)
        for query in queries { encoded.append(try EncodedQuery(query)) }
        return .segment(encoded)
    }

    /// Runs a text of several statements without parameters, such as a migration. Without BEGIN and COMMIT, the
    /// statements are one transaction. The text must not contain COPY.
    ///
    /// The text is sent after all earlier calls have been answered. Later calls wait until all statements of the text
    /// have ended.
    package nonisolated(nonsending) func runScript(
        _ sql: String, until deadline: Deadline? = nil
    ) async throws(PostgresError) {
        guard !sql.utf8.contains(0) else { throw PostgresError(.unsendable, "The script contains U+0000.") }
        _ = try await call(.script(sql), until: deadline).get()
    }

    private nonisolated(nonsending) func call(
        _ work: PostgresCall.Work, until deadline: Deadline?
    ) async -> PostgresCall.Outcome {
        let deadline = deadline ?? .inMilliseconds(callTimeoutMilliseconds)
        return await withUnsafeContinuation { caller in
            let call = PostgresCall(work, until: deadline, caller: .task(caller))
            loop.execute {
                self.change { $0.add(call) }
            }
        }
    }

    // MARK: - State

    package var isOpen: Bool { state.withLock { $0.pipeline.loss == nil } }

    /// Whether the connection is open, no call is under way, and no transaction is open.
    package var isIdle: Bool { state.withLock { $0.pipeline.isIdle } }

    /// Whether a transaction that wrote something was committed on this connection.
    ///
    /// If true, everything that this connection can read is on the synchronous standby. The COMMIT on this connection
    /// waited until the standby had all earlier WAL. Later commits of other connections become visible only when the
    /// standby has them.
    ///
    /// There is one exception: the COMMIT of another connection may end its wait too early. This happens if the server
    /// terminates that connection's backend, or if no standby is configured at that moment.
    ///
    /// If false, this connection may read data that is not on the standby. For example, a server that restarts after a
    /// crash recovers commits that the standby may lack.
    package var isConfirmed: Bool { hasConfirmed.load(ordering: .acquiring) }

    /// Sets `isConfirmed`. Call it only after the COMMIT of a transaction that wrote something.
    package func noteCommit() { hasConfirmed.store(true, ordering: .releasing) }

    /// How many calls are sent and not answered.
    var sentCount: Int { state.withLock { $0.pipeline.sentCount } }

    /// Closes the connection. Calls under way fail with `.connectionLost`. A second call does nothing.
    package func close() {
        loop.execute {
            self.change { $0.lose(PostgresError(.connectionLost, "The connection was closed by this side.")) }
        }
    }

    /// Runs reads. If the task is cancelled, closes the connection, so that the reads end at once. The calls in
    /// progress fail with `.cancelled`, and later calls with `.connectionLost`.
    ///
    /// The server may continue a statement until the statement's time limit. Must not be used for changes, because it
    /// would be unknown whether they were committed.
    package nonisolated(nonsending) func runUntilCancelled<Answer: Sendable>(
        _ reads: @Sendable () async throws(PostgresError) -> Answer
    ) async throws(PostgresError) -> Answer {
        try await withTaskCancellationHandler { () async -> Result<Answer, PostgresError> in
            do throws(PostgresError) { return .success(try await reads()) } catch { return .failure(error) }
        } onCancel: {
            loop.execute {
                self.change { $0.lose(PostgresError(.cancelled, "The connection was closed by a cancelled task.")) }
            }
        }.get()
    }

    /// Waits until the connection is closed by either side. Returns the reason why it was closed.
    package func waitUntilClosed() async -> PostgresError {
        await withUnsafeContinuation { continuation in
            let isClosed = state.withLock { state in
                if state.pipeline.loss == nil { state.untilClosed.append(continuation) }
                return state.pipeline.loss != nil
            }
            if isClosed { continuation.resume() }
        }
        return state.withLock { $0.pipeline.loss } ?? PostgresError(.connectionLost, "The connection was closed.")
    }

    // MARK: - On the loop

    private func register(_ descriptor: Int32) {
        do throws(TransportError) {
            let watch = try DescriptorWatch(descriptor, on: loop) { self.happened($0) }
            state.withLock { $0.watch = watch }
            change { _ in }
        } catch {
            change { $0.lose(PostgresError(.connectionLost, "The event loop does not watch the socket: \(error)")) }
        }
    }

    private func happened(_ event: DescriptorWatch.Event) {
        switch event {
        case .ready: change { _ in }
        case .timedOut: change { $0.failTimedOut() }
        case .loopShutsDown: change { $0.lose(PostgresError(.connectionLost, "The event loop was shut down.")) }
        }
    }

    /// Changes the pipeline, and lets it send and read as much as it can without waiting. Resumes the callers of the
    /// calls that have ended.
    private func change(_ body: (inout PostgresPipeline) -> Void) {
        let (finished, untilClosed) = state.withLock { state in
            body(&state.pipeline)
            let isMoreToRead = state.pipeline.advance()
            var untilClosed: [UnsafeContinuation<Void, Never>] = []
            if state.pipeline.loss == nil {
                if isMoreToRead { state.watch?.continueInNextRound() }
                state.watch?.setDeadline(state.pipeline.nextCheck)
            } else {
                // libpq has closed the descriptor.
                state.watch?.end()
                state.watch = nil
                swap(&untilClosed, &state.untilClosed)
            }
            return (state.pipeline.takeFinished(), untilClosed)
        }
        for (caller, outcome) in finished { caller.resume(returning: outcome) }
        for task in untilClosed { task.resume() }
    }
}
