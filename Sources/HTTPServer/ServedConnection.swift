// One connection: reads bytes, hands them to HTTP1, asks for the next event, and does what it says. Which deadline
// applies, and how a connection ends, is decided here; what an answer is made of, in ServedConnection+Answers.swift.
//
// Reading and writing take turns. What a batch of pipelined requests produced is written at once, and nothing is read
// while it has not been taken: a client that sends and never reads holds one input and one output buffer, no more.
// What all clients together make the server hold is counted in the budget that the connections share.
//
// An idle connection costs little more than its task, and that is as large as the largest frame on it. So async
// functions here hold next to nothing: what deals in heads and answers is not async, and not inlined into what is.

internal import HTTP1
internal import Sockets

/// Safe to share (a streamed body's writer does): everything that changes is touched only on the connection's loop.
final class ServedConnection: @unchecked Sendable, ServesWhileWaiting {
    let connection: Connection
    let serving: Serving
    var http: ServerConnection
    /// Made and not written yet.
    var output: [UInt8] = []
    /// Between `.head` and the answer.
    var exchange: Exchange?
    /// Bytes read so far, and how many of them belong to requests that were answered.
    var bytesRead = 0
    var bytesTakenBefore = 0
    /// Of the streamed answer in hand, so far.
    var streamedBytes = 0
    /// Taken from the budget.
    private var heldBytes = 0
    var isWritingChunk = false

    /// What was found while the task waited, and needs it.
    private var stepInHand: Step?
    /// Since another connection of the loop had its turn, or there was nothing more to answer.
    private var answersAtOnce = 0
    /// The last request that its path alone led to a route.
    private var lastMatch: (method: Method, path: String, placed: PlacedRoute)?
    /// The last answer's moment.
    var answeredAt: Deadline?

    private var headDeadline: Deadline?
    private var contentStart: (at: Deadline, bytesRead: Int)?
    /// From the moment a drain found the connection idle.
    private var drainDeadline: Deadline?

    /// A refused request's body is read up to here, so that the connection can go on.
    private static let discardedBodyBytesMax = 64 << 10
    /// Kept by a connection that waits for bytes; 10 000 of them hold at most 40 MiB.
    private static let idleOutputBytesMax = 4 << 10
    /// So many are answered at once, then the other connections of the loop have a turn: under half a millisecond.
    private static let answersAtOnceMax = 64
    /// Not counted in the budget: what an idle connection may keep of input and output, and most requests stay below.
    private static let uncountedBytes = 8 << 10

    private enum Ending {
        /// Nobody waits for anything.
        case close
        /// The last answer must arrive: see `ServerConfiguration.lingerMilliseconds`.
        case linger
    }

    init(_ connection: Connection, _ serving: Serving) {
        self.connection = connection
        self.serving = serving
        http = ServerConnection(limits: serving.configuration.limits)
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
        _ = hold(0)
    }

    /// Answers 503 before any request.
    func turnAway() async {
        do throws(TransportError) {
            shed("The server has too many connections.")
            try await flush()
            try await linger()
        } catch {}
    }

    // MARK: - Events

    private enum Step {
        case read, answer
        /// Enough was answered at once.
        case pause
        case end(Ending)
    }

    private nonisolated(nonsending) func run() async throws(TransportError) -> Ending {
        connection.servesWhileWaiting(self)
        defer { connection.servesWhileWaiting(nil) }
        while true {
            switch takeStep() {
            case .read: if let ending = try await readMore() { return ending }
            case .answer: try await answer()
            case .pause:
                try await flush()
                try await connection.giveTurn()
            case .end(let ending): return ending
            }
        }
    }

    @inline(never) private func takeStep() -> Step {
        guard let step = stepInHand else { return nextStep() }
        stepInHand = nil
        return step
    }

    /// Takes events as far as they can be dealt with at once.
    private func nextStep() -> Step {
        while true {
            switch http.nextEvent() {
            case .needMoreData:
                answersAtOnce = 0
                return .read
            case .head(let head): begin(head)
            case .body(let bytes): take(bytes)
            case .end:
                guard answerAtOnce() else { return .answer }
                answersAtOnce += 1
                if answersAtOnce >= Self.answersAtOnceMax || output.count > serving.configuration.outputBytesMax {
                    answersAtOnce = 0
                    return .pause
                }
            case .refused(let refusal): refuse(refusal.status, refusal.detail)
            case .endOfStream, .truncated: return .end(.close)
            case .responseDue, .closed: return .end(.linger)
            }
        }
    }

    private func begin(_ head: RequestHead) {
        headDeadline = nil
        contentStart = nil
        let destination: Exchange.Destination
        var parameters: [String: String] = [:]
        switch match(head) {
        case .route(let placed, let found):
            http.limitBody(toBytes: placed.route.bodyBytesMax)
            destination = .handler(placed)
            parameters = found
        case .options(let allow):
            http.limitBody(toBytes: ServedConnection.discardedBodyBytesMax)
            destination = .options(allow: allow)
        case .notFound:
            http.limitBody(toBytes: ServedConnection.discardedBodyBytesMax)
            destination = .refusal(.notFound, detail: "There is nothing at this path.", fields: Fields())
        case .methodNotAllowed(let allow):
            http.limitBody(toBytes: ServedConnection.discardedBodyBytesMax)
            let fields = Fields([("Allow", allow)])
            destination = .refusal(.methodNotAllowed, detail: "This path does not take this method.", fields: fields)
        }
        let request = Request(
            method: head.method, path: head.path, query: head.query, fields: head.fields,
            id: RequestID.of(head.fields), receivedAtMilliseconds: LoopClock.nowMilliseconds,
            remoteAddress: serving.configuration.trustedProxies.clientAddress(
                peer: connection.remoteAddress, head.fields),
            parameters: parameters)
        exchange = Exchange(destination: destination, request: request)
    }

    /// Most connections ask for one thing again and again.
    private func match(_ head: RequestHead) -> Router.Match {
        if let last = lastMatch, last.path == head.path, last.method == head.method {
            return .route(last.placed, parameters: [:])
        }
        let match = serving.router.match(head.method, head.path)
        if case .route(let placed, let parameters) = match, parameters.isEmpty {
            lastMatch = (head.method, head.path, placed)
        }
        return match
    }

    private func take(_ bytes: [UInt8]) {
        guard case .handler = exchange?.destination else { return }
        guard hold(heldBytes + bytes.count) else { return shed() }
        if exchange?.request.body.isEmpty == true {
            exchange?.request.body = bytes
        } else {
            exchange?.request.body += bytes
        }
    }

    // MARK: - The budget

    /// Has the budget count so many bytes for this connection. False, and nothing changes, without room for more.
    private func hold(_ bytes: Int) -> Bool {
        if bytes > heldBytes {
            guard serving.bufferBudget.take(bytes - heldBytes) else { return false }
        } else if bytes < heldBytes {
            serving.bufferBudget.give(heldBytes - bytes)
        }
        heldBytes = bytes
        return true
    }

    /// The same for what was received of the request in hand, and of the next ones.
    func holdRequest() -> Bool {
        let input = http.inputCapacityBytes
        return hold((exchange?.request.body.count ?? 0) + (input > ServedConnection.uncountedBytes ? input : 0))
    }

    private func shed(_ detail: String = "The server is busy.") {
        refuse(.serviceUnavailable, detail, retryAfterSeconds: 1)
    }

    // MARK: - Reading

    /// Not nil when the connection is over.
    private nonisolated(nonsending) func readMore() async throws(TransportError) -> Ending? {
        if answersInsteadOfReading() {
            try await answer()
            return nil
        }
        try await flush()
        guard let wait = wait() else { return nil }
        do throws(TransportError) {
            try await connection.waitReadable(until: wait.deadline, endsOnDrain: wait.endsOnDrain)
            if stepInHand == nil, let count = try connection.readAtOnce({ received($0) }), count == 0 {
                http.receiveEndOfStream()
            }
            return nil
        } catch {
            // Bytes may have been served since the wait began.
            return try ending(after: error, http.phase)
        }
    }

    /// The same without the task: requests that are answered at once are, and the wait for the next one goes on.
    func serveWhileWaiting() -> Bool {
        do throws(TransportError) {
            guard let count = try connection.readAtOnce({ received($0) }) else { return true }
            // The task reads the end once more.
            if count == 0 { return false }
            answeredAt = nil
            let step = nextStep()
            guard case .read = step, !http.isContinueDue, try flushAtOnce() else {
                stepInHand = step
                return false
            }
            guard let wait = wait(since: answeredAt) else { return false }
            connection.waitOn(until: wait.deadline, endsOnDrain: wait.endsOnDrain)
            return true
        } catch {
            // The task meets the same failure, or is cancelled already.
            return false
        }
    }

    /// A client that waits for 100 (Continue) gets it, unless its request is refused (RFC 9110 section 10.1.1): then
    /// a final status instead, and its body will not be read.
    @inline(never) private func answersInsteadOfReading() -> Bool {
        guard http.isContinueDue else { return false }
        if exchange?.isRefused == true { return true }
        http.encodeContinue(into: &output)
        return false
    }

    @inline(never) private func received(_ bytes: UnsafeRawBufferPointer) -> Int {
        http.receive(bytes)
        bytesRead += bytes.count
        return bytes.count
    }

    private struct Wait {
        var deadline: Deadline
        var endsOnDrain: Bool
    }

    /// What is not needed while waiting is given back. nil when the budget has no room for what is, which is answered.
    /// `start`: when the wait between requests began, if that was just now.
    @inline(never) private func wait(since start: Deadline? = nil) -> Wait? {
        if output.capacity > ServedConnection.idleOutputBytesMax { output = [] }
        guard holdRequest() else {
            shed()
            return nil
        }
        let phase = http.phase
        return Wait(
            deadline: deadline(phase, start), endsOnDrain: phase == .idle && drainDeadline == nil)
    }

    /// nil when the connection goes on.
    @inline(never) private func ending(
        after error: TransportError, _ phase: ServerConnection.Phase
    ) throws(TransportError) -> Ending? {
        switch error {
        case .draining:
            drainDeadline = .inMilliseconds(serving.configuration.drainIdleMilliseconds)
            return nil
        case .timedOut where phase == .idle:
            return .close
        case .timedOut:
            refuseLateRequest()
            return .linger
        default:
            throw error
        }
    }

    /// 408 is for who only asks. Shipped phones drop an event for every status of 4xx but three, and a bad network is
    /// no reason to lose one: what may be an event is answered 503 (docs/decisions/late-requests.md).
    private func refuseLateRequest() {
        let detail = "The request did not arrive in time. Send it again."
        if http.isSafeRequest {
            refuse(.requestTimeout, detail)
        } else {
            refuse(.serviceUnavailable, detail, retryAfterSeconds: 1)
        }
    }

    private func deadline(_ phase: ServerConnection.Phase, _ start: Deadline?) -> Deadline {
        switch phase {
        case .head:
            let deadline = headDeadline ?? .inMilliseconds(serving.configuration.headTimeoutMilliseconds)
            headDeadline = deadline
            return deadline
        case .content:
            let start = contentStart ?? (.now, bytesRead)
            contentStart = start
            let received = min(bytesRead - start.bytesRead, 1 << 40)
            let earned = received * 1000 / max(1, serving.configuration.bodyBytesPerSecondMin)
            return start.at.advanced(byMilliseconds: serving.configuration.bodyTimeoutMilliseconds + earned)
        case .idle, .response, .closed:
            let idle = (start ?? .now).advanced(byMilliseconds: serving.configuration.idleTimeoutMilliseconds)
            return min(idle, drainDeadline ?? .never)
        }
    }

    // MARK: - Writing

    nonisolated(nonsending) func flush() async throws(TransportError) {
        if output.isEmpty { return }
        let before = heldBytes
        // Without room for this answer nobody waits for the client to take it.
        let hasRoom = output.count <= ServedConnection.uncountedBytes || hold(before + output.count)
        try await connection.write(
            output, stallTimeoutMilliseconds: hasRoom ? serving.configuration.writeStallMilliseconds : 0)
        output.removeAll(keepingCapacity: true)
        _ = hold(before)
    }

    /// False when the peer does not take all of it now.
    private func flushAtOnce() throws(TransportError) -> Bool {
        let sent = try connection.writeAtOnce(output)
        let isAll = sent == output.count
        if isAll {
            output.removeAll(keepingCapacity: true)
        } else {
            output.removeFirst(sent)
        }
        return isAll
    }

    private nonisolated(nonsending) func linger() async throws(TransportError) {
        connection.shutdownWrite()
        let deadline = Deadline.inMilliseconds(serving.configuration.lingerMilliseconds)
        var left = serving.configuration.lingerBytesMax
        while left > 0 {
            let count = try await connection.read(until: deadline) { $0.count }
            if count == 0 { return }
            left -= count
        }
    }
}
