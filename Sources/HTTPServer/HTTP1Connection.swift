// One connection. HTTP1ConnectionState decides the next step, and this class executes it without blocking. The event
// loop calls this class when the socket changes, when a deadline passes, and when a task has a response.
//
//   serving     requests are read, parsed and answered from memory
//   working     a task judges the current request or makes its response; nothing is read
//   streaming   the request's task writes the response piece by piece
//   ending      the last response is being written
//   lingering   the last response was sent; the client has some time to read it
//   over        the connection is closed
//
// The responses to a batch of pipelined requests are written together. If the socket does not accept all of their bytes
// (`isStalled`), the connection reads nothing until the socket has accepted the rest.
//
// A client that never reads its responses therefore uses at most one input buffer and one output buffer. The shared
// BufferBudget limits the memory for all clients together.

internal import HTTP1
internal import Logging
internal import Sockets

/// The connection is shared with its tasks and with the writer of a streamed body. Sharing is safe because all mutable
/// state is accessed only on the connection's loop.
final class HTTP1Connection: @unchecked Sendable {
    private let connection: Connection
    private let whenOver: @Sendable () -> Void
    private var state: HTTP1ConnectionState
    private var activity = Activity.serving
    /// The task of the current request. It is cancelled when the peer is gone. The cancellation ends the waits of the
    /// task, but does not undo what the task has committed.
    private var task: LoopTask?
    /// Whether the socket did not accept all of the output, so that the rest still waits.
    private var isStalled = false
    /// The suspended writer of a stream. It resumes when the peer has taken the chunk that it wrote.
    private var chunkWriter: CheckedContinuation<TransportError?, Never>?
    /// The number of the most recent wait of a writer. When the loop handles the cancellation of a wait, the next wait
    /// may already have begun. Each cancellation therefore carries the number of its wait, and ends no other wait.
    private var chunkWaits: UInt64 = 0
    private var isWritingChunk = false
    /// The number of the latest stream of this connection. Each writer stores the number of its stream. A handler that
    /// keeps its writer after the end of the stream therefore cannot write into a later stream.
    private var streamNumber: UInt64 = 0

    private enum Activity {
        case serving, working, streaming
        case ending(HTTP1ConnectionState.Ending)
        case lingering(bytesLeft: Int)
        case over
    }

    /// Creates the connection. Must be called on the loop. `whenOver` is called once, when the connection is closed and
    /// its task has ended.
    init(_ connection: Connection, _ context: ServerContext, whenOver: @escaping @Sendable () -> Void) {
        self.connection = connection
        self.whenOver = whenOver
        state = HTTP1ConnectionState(connection, context)
        connection.whenChanged { [self] in changed($0) }
    }

    func serve() {
        advance()
    }

    /// Sends 503 without reading a request, and ends the connection.
    func reject() {
        state.shed("The server has too many connections.")
        activity = .ending(.linger)
        advance()
    }

    // MARK: - What happens

    private func changed(_ change: ConnectionChange) {
        switch change {
        case .ready:
            advance()
            // `advance` comes first, because the kernel may still hold the peer's last bytes.
            if connection.peerIsGone { task?.cancel() }
        case .roundEnds: writeAtRoundEnd()
        case .timedOut: timedOut()
        case .draining: advance()
        case .closed: closed()
        }
    }

    /// Does everything that is possible without waiting.
    private func advance() {
        do throws(TransportError) {
            while try step() {}
        } catch {
            // The peer is gone or does not read, so an error response could not reach the peer.
            connection.close()
        }
    }

    /// Does one step. Returns false if the connection must wait.
    private func step() throws(TransportError) -> Bool {
        if isStalled { guard try write() else { return false } }
        switch activity {
        case .serving: return try serveNext()
        case .working:
            // Write the responses to the earlier requests.
            _ = try state.write()
            return false
        case .over: return false
        case .streaming:
            // `isStalled` is false here, so the peer has taken the chunk.
            resumeChunkWriter(nil)
            return false
        case .ending(let ending):
            guard try write() else { return false }
            if ending == .close {
                connection.close()
                return false
            }
            connection.shutdownWrite()
            if connection.isClosed { return false }
            activity = .lingering(bytesLeft: state.context.configuration.lingerBytesMax)
            connection.setDeadline(.inMilliseconds(state.context.configuration.lingerMilliseconds))
            return true
        case .lingering(let bytesLeft):
            guard let count = try connection.receive({ _ in }) else { return false }
            if count == 0 || count >= bytesLeft {
                connection.close()
                return false
            }
            activity = .lingering(bytesLeft: bytesLeft - count)
            connection.continueInNextRound()
            return false
        }
    }

    // MARK: - Serving

    private func serveNext() throws(TransportError) -> Bool {
        switch try state.serve() {
        case .wait(let deadline): connection.setDeadline(deadline)
        case .stalled: stall()
        case .nextRound: continueInNextRound()
        case .judge: judge()
        case .work(let work): start(work)
        case .end(let ending):
            activity = .ending(ending)
            return true
        }
        return false
    }

    /// Lets the loop's other connections run first. Called when received bytes are not processed yet, or when more
    /// bytes may be ready to read. The connection does not wait for the peer, so it has no deadline.
    private func continueInNextRound() {
        connection.setDeadline(.never)
        connection.continueInNextRound()
    }

    private func timedOut() {
        switch activity {
        case _ where isStalled: connection.close()
        case .serving:
            activity = .ending(state.endingOfLateRequest())
            advance()
        case .ending, .lingering: connection.close()
        // The deadline belongs to an earlier wait for the peer, and was not cleared. It no longer has an effect.
        case .working, .streaming, .over: break
        }
    }

    // MARK: - Work

    private func start(_ work: @escaping RequestWork) {
        activity = .working
        task = connection.loop.start { [self] in
            await respond(await work())
            taskEnds()
        }
        if connection.peerIsGone { task?.cancel() }
    }

    /// Sends the response. If the connection is closed, the response is discarded, but still logged and counted.
    private nonisolated(nonsending) func respond(_ response: Response) async {
        guard case .working = activity, case .stream(let produce) = response.body else {
            return state.send(response)
        }
        guard state.beginStream(response) else { return }
        streamNumber &+= 1
        activity = .streaming
        do {
            _ = try write()
            if state.streamHasContent {
                try await produce(StreamedBody(connection: self, number: streamNumber))
            }
            connection.whenPeerEndsSending(nil)
            state.endStream()
        } catch {
            connection.whenPeerEndsSending(nil)
            state.breakOffStream()
            state.context.logger.debug("a streamed body ended early", metadata: ["error": "\(type(of: error))"])
            connection.close()
        }
    }

    private func taskEnds() {
        task = nil
        if case .over = activity {
            state.releaseBuffers()
            return whenOver()
        }
        activity = .serving
        advance()
    }

    /// Asks the route's judge whether to accept the content of the current request. Nothing is read until the judge
    /// returns.
    private func judge() {
        guard let (judge, request) = state.judging() else { return }
        activity = .working
        task = connection.loop.start { [self] in
            let judgement = await judge(request)
            if case .working = activity { state.take(judgement) }
            taskEnds()
        }
        if connection.peerIsGone { task?.cancel() }
    }

    // MARK: - Streaming

    fileprivate func writeChunk(_ bytes: [UInt8], ofStream number: UInt64) async throws(TransportError) {
        if !connection.loop.isCurrent {
            return try await withTaskExecutorPreference(connection.loop) { () async throws(TransportError) in
                try await writeChunk(bytes, ofStream: number)
            }
        }
        if isWritingChunk { throw .alreadyWaiting }
        isWritingChunk = true
        defer { isWritingChunk = false }
        // A stream ends when its closure returns, or when the connection is closed.
        guard isStreaming(number), state.encodeChunk(bytes) else { throw .closed }
        let wasStalled = isStalled
        do throws(TransportError) {
            if try write() {
                try await connection.yieldIfBusy()
            } else {
                // If the output was stalled before, `write` may not have counted the new chunk in the budget.
                if wasStalled { stall() }
                try await chunkIsTaken()
            }
        } catch {
            // Closing the connection cancels the task. The writer still receives the original error, because the error
            // is thrown here.
            connection.close()
            throw error
        }
    }

    private nonisolated(nonsending) func chunkIsTaken() async throws(TransportError) {
        chunkWaits &+= 1
        let number = chunkWaits
        let failure = await withTaskCancellationHandler {
            if Task.isCancelled { return TransportError.cancelled as TransportError? }
            return await withCheckedContinuation { chunkWriter = $0 }
        } onCancel: {
            connection.loop.execute { if self.chunkWaits == number { self.resumeChunkWriter(.cancelled) } }
        }
        if let failure { throw failure }
    }

    private func resumeChunkWriter(_ failure: TransportError?) {
        guard let writer = chunkWriter else { return }
        chunkWriter = nil
        writer.resume(returning: failure)
    }

    fileprivate func whenClientEndsSending(ofStream number: UInt64, _ body: @escaping @Sendable () -> Void) {
        connection.loop.execute { [self] in
            if isStreaming(number) { connection.whenPeerEndsSending(body) }
        }
    }

    private func isStreaming(_ number: UInt64) -> Bool {
        if case .streaming = activity { return number == streamNumber }
        return false
    }

    // MARK: - Writing

    /// Writes the output. Returns false if the socket did not accept all of it; the connection then waits for the
    /// socket. A connection that cannot write a byte for `ServerConfiguration.writeStallMilliseconds` is closed.
    private func write() throws(TransportError) -> Bool {
        let sentBefore = state.sentBytes
        if try state.write() {
            if isStalled {
                isStalled = false
                state.outputIsTaken()
                connection.setDeadline(.never)
            }
            return true
        }
        if !isStalled || state.sentBytes > sentBefore { stall() }
        return false
    }

    private func stall() {
        isStalled = true
        connection.setDeadline(.inMilliseconds(state.holdOutput()))
    }

    /// Writes the collected responses at the end of a round of the loop. The task of the next request may already be
    /// running.
    private func writeAtRoundEnd() {
        // A stalled connection writes at the next `.ready`.
        if isStalled { return }
        do throws(TransportError) {
            if case .working = activity {
                _ = try state.write()
            } else if try write() {
                state.shrinkOutput()
            }
        } catch {
            connection.close()
        }
    }

    // MARK: - The end

    private func closed() {
        activity = .over
        isStalled = false
        resumeChunkWriter(.closed)
        if let task {
            // The task still uses the bytes of the request, so the budget must count these bytes until the task ends.
            state.dropOutput()
            task.cancel()
        } else {
            state.releaseBuffers()
            whenOver()
        }
    }
}

/// The writer that a streaming handler gets. Only one write at a time is allowed.
private struct StreamedBody: ResponseBodyWriter {
    let connection: HTTP1Connection
    let number: UInt64

    func write(_ bytes: [UInt8]) async throws {
        try await connection.writeChunk(bytes, ofStream: number)
    }

    func whenClientEndsSending(_ body: @escaping @Sendable () -> Void) {
        connection.whenClientEndsSending(ofStream: number, body)
    }
}
