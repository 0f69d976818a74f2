// One connection, driven by its loop: each change of the socket, each deadline and each response of a task moves it on.
// Nothing here waits. What comes next is decided in HTTP1ConnectionState, how it is done here.
//
//   serving     requests are read, parsed and answered from memory
//   working     a task makes the response of the request in hand; nothing is read
//   streaming   the task of the request writes the response piece by piece
//   ending      the last response is on its way
//   lingering   it was sent; the client has a while to read it
//   over        the connection is closed
//
// Reading and writing take turns. What a batch of pipelined requests produced is written at once, and nothing is read
// while the peer has not taken it (`isStalled`): a client that sends and never reads holds one input and one output buffer,
// no more. What all clients together make the server hold is counted in the budget that the connections share.

internal import HTTP1
internal import Logging
internal import Sockets

/// Safe to share (its tasks and a streamed body's writer do): everything that changes is touched only on the connection's
/// loop.
final class HTTP1Connection: @unchecked Sendable {
    private let connection: Connection
    private let whenOver: @Sendable () -> Void
    private var state: HTTP1ConnectionState
    private var activity = Activity.serving
    /// Of the request in hand. Cancelled when the peer is gone: what it waits for ends, what it commits does not depend
    /// on who is still there.
    private var task: Task<Void, Never>?
    /// The peer has not taken all of the output.
    private var isStalled = false
    /// The writer of a stream that waits until the peer has taken its chunk.
    private var chunkWriter: CheckedContinuation<TransportError?, Never>?
    /// Counts the waits of writers, so that a cancellation that comes late does not end the next one.
    private var chunkWaits: UInt64 = 0
    private var isWritingChunk = false
    /// Counts streams: a writer that outlives its stream must not write into the next one.
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
            // After what the kernel still has of the peer was read.
            if connection.peerIsGone { task?.cancel() }
        case .tickEnds: writeAtTickEnd()
        case .timedOut: timedOut()
        case .draining: advance()
        case .closed: closed()
        }
    }

    /// Does all that can be done now.
    private func advance() {
        do throws(TransportError) {
            while try step() {}
        } catch {
            // The peer is gone, or does not take its response: there is nobody to tell.
            connection.close()
        }
    }

    /// False when the next change has to come first.
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
            // Nothing is stalled: the chunk is taken.
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

    /// Serving goes on when the other connections had their turn. No deadline holds meanwhile: there are bytes to be served,
    /// or perhaps to be read.
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
        case .working, .streaming, .over: break
        }
    }

    // MARK: - Work

    /// Starts the task of the request in hand.
    private func start(_ work: @escaping RequestWork) {
        activity = .working
        connection.setDeadline(.never)
        task = Task(executorPreference: connection.loop) { [self] in
            await respond(await work())
            taskEnds()
        }
        if connection.peerIsGone { task?.cancel() }
    }

    /// On a closed connection, for the log and the metrics: nobody gets the response.
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
            // Without the last chunk the client knows that this is not all.
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

    /// Whether the content of the request in hand may come. Nothing is read until that is known.
    private func judge() {
        guard let (judge, request) = state.judging() else { return }
        activity = .working
        connection.setDeadline(.never)
        task = Task(executorPreference: connection.loop) { [self] in
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
        // After the stream's closure returned no chunk is due: the writer outlived it.
        guard isStreaming(number), state.encodeChunk(bytes) else { throw .closed }
        do throws(TransportError) {
            if try write() { try await connection.takeTurns() } else { try await chunkIsTaken() }
        } catch {
            // A writer gets the error; closing cancels the task, which reaches a waiter.
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

    /// True when the peer has taken all of the output. If not, nothing else is done until it has, or has taken nothing for
    /// too long.
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

    /// What many connections respond in one round is sent in one go. The task of the next request may run already: what is
    /// in the output then are whole responses.
    private func writeAtTickEnd() {
        // The peer takes nothing: `ready` follows when it does, and goes on from there.
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
            // It still has the request, which stays counted until it ends.
            state.dropOutput()
            task.cancel()
        } else {
            state.holdNothing()
            whenOver()
        }
    }
}

/// What a streaming handler is given. One write at a time.
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
