// One connection, driven by its loop: by changes of the socket, by deadlines and by responses from tasks. Nothing here
// blocks. HTTP1ConnectionState decides what to do next; this class does it.
//
//   serving     requests are read, parsed and answered from memory
//   working     a task makes the response to the current request; nothing is read
//   streaming   the request's task writes the response piece by piece
//   ending      the last response is being written
//   lingering   it was sent; the client has some time to read it
//   over        the connection is closed
//
// Reading and writing alternate. The responses to a batch of pipelined requests are written at once, and nothing is
// read until the peer has taken them (`isStalled`): a client that sends and never reads holds one input and one output
// buffer, no more. The memory held for all clients together is limited by the shared BufferBudget.

internal import HTTP1
internal import Logging
internal import Sockets

/// Safe to share (its tasks and the writer of a streamed body do): all mutable state is touched only on the
/// connection's loop.
final class HTTP1Connection: @unchecked Sendable {
    private let connection: Connection
    private let whenOver: @Sendable () -> Void
    private var state: HTTP1ConnectionState
    private var activity = Activity.serving
    /// Of the current request. Cancelled when the peer is gone: this ends its waits, but does not undo what it commits.
    private var task: LoopTask?
    /// The peer has not taken all of the output.
    private var isStalled = false
    /// The writer of a stream, suspended until the peer has taken its chunk.
    private var chunkWriter: CheckedContinuation<TransportError?, Never>?
    /// Counts the waits of writers, so that a late cancellation does not end the next one.
    private var chunkWaits: UInt64 = 0
    private var isWritingChunk = false
    /// Counts streams, so that a writer that outlives its stream cannot write into the next one.
    private var streamNumber: UInt64 = 0

    private enum Activity {
        case serving, working, streaming
        case ending(HTTP1ConnectionState.Ending)
        case lingering(bytesLeft: Int)
        case over
    }

    /// On the loop. `whenOver`: called once, when the connection is closed and its task has ended.
    init(_ connection: Connection, _ context: ServerContext, whenOver: @escaping @Sendable () -> Void) {
        self.connection = connection
        self.whenOver = whenOver
        state = HTTP1ConnectionState(connection, context)
        connection.whenChanged { [self] in changed($0) }
    }

    func serve() {
        advance()
    }

    /// Sends 503 before any request.
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
            // Only after the bytes that the kernel still holds from the peer were read.
            if connection.peerIsGone { task?.cancel() }
        case .tickEnds: writeAtTickEnd()
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
            // The peer is gone or does not read its response: no error response can reach it.
            connection.close()
        }
    }

    /// False when nothing more can be done before the next change.
    private func step() throws(TransportError) -> Bool {
        if isStalled { guard try write() else { return false } }
        switch activity {
        case .serving: return try serveNext()
        case .working:
            // Responses to earlier requests.
            _ = try state.write()
            return false
        case .over: return false
        case .streaming:
            // Not stalled, so the peer has taken the chunk.
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

    /// Continues after the loop's other connections have run. There is no deadline meanwhile: bytes are ready to be
    /// served, or may be ready to be read.
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
        // Left from the wait for the request.
        case .working, .streaming, .over: break
        }
    }

    // MARK: - Work

    /// Starts the task of the current request.
    private func start(_ work: @escaping RequestWork) {
        activity = .working
        task = connection.loop.start { [self] in
            await respond(await work())
            taskEnds()
        }
        if connection.peerIsGone { task?.cancel() }
    }

    /// Runs on a closed connection too, for the log and the metrics; the response is then discarded.
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
            // Without the last chunk the client sees that the response is incomplete.
            state.context.logger.debug("a streamed body ended early", metadata: ["error": "\(type(of: error))"])
            connection.close()
        }
    }

    private func taskEnds() {
        task = nil
        if case .over = activity {
            state.holdNothing()
            return whenOver()
        }
        activity = .serving
        advance()
    }

    /// Asks the route's judge whether the content of the current request is accepted. Nothing is read until it returns.
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
        // The stream has ended: its closure returned, or the connection closed.
        guard isStreaming(number), state.encodeChunk(bytes) else { throw .closed }
        do throws(TransportError) {
            if try write() { try await connection.takeTurns() } else { try await chunkIsTaken() }
        } catch {
            // This writer gets the error by the throw; closing cancels the task.
            connection.close()
            throw error
        }
    }

    /// Returns when the peer has taken the chunk.
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

    /// True when the peer has taken all of the output. Otherwise nothing else is done until it has, or until it has
    /// taken nothing for too long.
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

    /// The output of all connections is sent together at the end of a round of the loop. The task of the next request
    /// may be running already; the output then holds only whole responses.
    private func writeAtTickEnd() {
        // `ready` follows when the peer takes output again, and continues from there.
        if isStalled { return }
        do throws(TransportError) {
            if case .working = activity {
                _ = try state.write()
            } else if try write() {
                state.giveBackOutput()
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
            // The task still has the request, whose bytes stay counted until it ends.
            state.dropOutput()
            task.cancel()
        } else {
            state.holdNothing()
            whenOver()
        }
    }
}

/// The writer passed to a streaming handler. One write at a time.
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
