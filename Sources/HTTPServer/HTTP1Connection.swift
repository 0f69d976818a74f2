// One connection: waits, reads, and does what its dialogue says comes next. How a connection waits and ends is decided
// here; what is said on it, and until when it may wait, in HTTP1ConnectionState.swift.
//
// Reading and writing take turns. What a batch of pipelined requests produced is written at once, and nothing is read
// while it has not been taken: a client that sends and never reads holds one input and one output buffer, no more.
// What all clients together make the server hold is counted in the budget that the connections share.
//
// An idle connection costs little more than its task, and that is as large as the largest frame on it. So async
// functions here hold next to nothing: what deals in heads and answers is not async, and not inlined into what is.

internal import HTTP1
internal import Logging
internal import Sockets

/// Safe to share (a streamed body's writer does): everything that changes is touched only on the connection's loop.
final class HTTP1Connection: @unchecked Sendable, ServesWhileWaiting {
    private let connection: Connection
    private var connectionState: HTTP1ConnectionState
    private var isWritingChunk = false
    /// The task writes what was made.
    private var isFlushing = false

    /// Not inlined into the task, whose frame would keep the place in which the dialogue is made.
    @inline(never) init(_ connection: Connection, _ serving: ServerContext) {
        self.connection = connection
        connectionState = HTTP1ConnectionState(connection, serving)
    }

    /// Returns when the connection is over; the caller closes it.
    func serve() async {
        do throws(TransportError) {
            let ending = try await run()
            try await flush()
            if ending == .linger { try await linger() }
        } catch {
            // The peer is gone, or does not take its answer: there is nobody to tell.
        }
        _ = connectionState.hold(0)
    }

    /// Answers 503 before any request.
    func reject() async {
        do throws(TransportError) {
            connectionState.shed("The server has too many connections.")
            try await flush()
            try await linger()
        } catch {}
    }

    private nonisolated(nonsending) func run() async throws(TransportError) -> HTTP1ConnectionState.Ending {
        connection.servesWhileWaiting(self)
        defer { connection.servesWhileWaiting(nil) }
        while true {
            switch connectionState.takeStep() {
            case .read: if let ending = try await readMore() { return ending }
            case .answer: try await answer()
            case .pause:
                try await flush()
                try await connection.giveTurn()
            case .end(let ending): return ending
            }
        }
    }

    /// Without the task: requests that are answered at once are, and the wait for the next one goes on.
    @inline(never) func serveWhileWaiting() -> Bool {
        connectionState.serveWhileWaiting()
    }

    /// Without the task, which may have gone on to the next request already: what stands in the output then are whole
    /// answers.
    @inline(never) func flushAtTickEnd() -> Bool {
        isFlushing || connectionState.flushAtTickEnd()
    }

    // MARK: - Reading

    /// Not nil when the connection is over.
    private nonisolated(nonsending) func readMore() async throws(TransportError) -> HTTP1ConnectionState.Ending? {
        if connectionState.isJudgementDue(), await !isWelcome() { return nil }
        if connectionState.answersInsteadOfReading() {
            try await answer()
            return nil
        }
        if !connectionState.leavesOutputToRound() { try await flush() }
        guard let wait = connectionState.wait() else { return nil }
        do throws(TransportError) {
            try await connection.waitReadable(until: wait.deadline, endsOnDrain: wait.endsOnDrain)
            try connectionState.readOnceWoken()
            return nil
        } catch {
            // Bytes may have been served since the wait began.
            return try connectionState.ending(after: error)
        }
    }

    /// Apart from what waits for bytes, whose frame has no room for a request.
    @inline(never) private nonisolated(nonsending) func isWelcome() async -> Bool {
        guard let (judge, request) = connectionState.judging() else { return true }
        return connectionState.take(await judge(request))
    }

    // MARK: - Answering

    /// The request in hand, as it was decided when its head came.
    private nonisolated(nonsending) func answer() async throws(TransportError) {
        if let (handler, request) = connectionState.handling() {
            // Earlier answers of the same batch do not wait for a handler that waits.
            _ = connectionState.leavesOutputToRound()
            // A client that goes away cancels this task (ListenerGroup): what the handler waits for ends at once, what
            // it commits does not depend on who is still there.
            let response = await handler(request)
            if case .stream(let produce) = response.body {
                try await flush()
                return try await stream(produce, response)
            }
            connectionState.send(response)
        } else {
            connectionState.answerWithoutHandler()
        }
        if connectionState.isOutputFull() { try await flush() }
    }

    /// What was made before is written already.
    private nonisolated(nonsending) func stream(
        _ produce: @Sendable (any ResponseBodyWriter) async throws -> Void, _ response: Response
    ) async throws(TransportError) {
        guard let exchange = connectionState.beginStream(response) else { return }
        try await flush()
        if exchange.method != .head {
            defer { connection.whenPeerEndsSending(nil) }
            do {
                try await produce(StreamedBody(served: self))
            } catch {
                // Without the last chunk the client knows that this is not all.
                connectionState.serving.logger.debug(
                    "a streamed body ended early", metadata: ["error": "\(type(of: error))"])
                throw .closed
            }
        }
        connectionState.endStream(exchange, response.status)
    }

    fileprivate func writeChunk(_ bytes: [UInt8]) async throws(TransportError) {
        if !connection.loop.isCurrent {
            return try await withTaskExecutorPreference(connection.loop) { () async throws(TransportError) in
                try await writeChunk(bytes)
            }
        }
        if isWritingChunk { throw .alreadyWaiting }
        isWritingChunk = true
        defer { isWritingChunk = false }
        // False after the stream's closure returned: the writer outlived it.
        guard connectionState.encodeChunk(bytes) else { throw .closed }
        do throws(TransportError) {
            try await flush()
        } catch {
            // A writer gets the error; closing cancels the task, which reaches a waiter.
            connection.close()
            throw error
        }
    }

    fileprivate func whenClientEndsSending(_ body: @escaping @Sendable () -> Void) {
        connection.whenPeerEndsSending(body)
    }

    // MARK: - Writing

    private nonisolated(nonsending) func flush() async throws(TransportError) {
        if connectionState.output.isEmpty { return }
        let before = connectionState.heldBytes
        let patience = connectionState.holdOutput()
        isFlushing = true
        defer { isFlushing = false }
        try await connection.write(connectionState.output, stallTimeoutMilliseconds: patience)
        connectionState.output.removeAll(keepingCapacity: true)
        _ = connectionState.hold(before)
    }

    private nonisolated(nonsending) func linger() async throws(TransportError) {
        connection.shutdownWrite()
        let deadline = Deadline.inMilliseconds(connectionState.serving.configuration.lingerMilliseconds)
        var left = connectionState.serving.configuration.lingerBytesMax
        while left > 0 {
            let count = try await connection.read(until: deadline) { $0.count }
            if count == 0 { return }
            left -= count
        }
    }
}

/// What a streaming handler is given. One write at a time.
private struct StreamedBody: ResponseBodyWriter {
    let served: HTTP1Connection

    func write(_ bytes: [UInt8]) async throws {
        try await served.writeChunk(bytes)
    }

    func whenClientEndsSending(_ body: @escaping @Sendable () -> Void) {
        served.whenClientEndsSending(body)
    }
}
