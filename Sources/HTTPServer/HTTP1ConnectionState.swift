// Decides what a connection does next: bytes to events, events to responses, responses to bytes. It never waits;
// waiting and the socket belong to HTTP1Connection. Responding is in HTTP1ConnectionState+Answers.swift; the output
// that is not written yet, and what the budget counts, in HTTP1ConnectionState+Output.swift.
//
// A value type with everything that changes from request to request, so that its owner pays one exclusivity check for a
// batch of requests instead of one for each of its properties.

internal import HTTP1
internal import Sockets

/// Not copyable: its buffers belong to one connection. Used only on the connection's loop.
struct HTTP1ConnectionState: ~Copyable {
    let connection: Connection
    let context: ServerContext
    var http: ServerConnection
    /// Encoded and not written yet.
    var output: [UInt8] = []
    /// How many bytes at the beginning of `output` are sent.
    var sentBytes = 0
    /// From `.head` to the response.
    var exchange: Exchange?
    /// Bytes read so far, and how many of them belong to requests that were answered.
    var bytesRead = 0
    var bytesTakenBefore = 0
    /// Bytes of the current streamed response so far.
    var streamedBytes = 0
    /// When the last response was made.
    var respondedAt: Deadline?
    /// Bytes counted in the budget.
    var heldBytes = 0
    /// The part of `heldBytes` for output that the peer has not taken.
    var heldOutputBytes = 0
    /// The client whose share `heldBytes` counts towards: the current request's, once its credential was judged.
    var client: String?

    /// The current streamed response.
    var streaming: (exchange: Exchange, status: Status)?

    /// Responses since another connection of the loop could run, or since there was nothing left to answer.
    private var responsesInRow = 0
    /// The last request whose route was found by the path alone, without parameters.
    private var lastMatch: (method: Method, path: String, placed: RegisteredRoute)?

    private var headDeadline: Deadline?
    private var contentStart: (at: Deadline, bytesRead: Int)?
    /// Set when a drain finds the connection idle.
    private var drainDeadline: Deadline?

    /// After this many responses from memory, the loop's other connections run: under half a millisecond.
    private static let responsesInRowMax = 64
    /// The same after this many reads in a row.
    private static let readsMax = 8

    /// What the owner does next, when nothing more can be done here.
    enum Pause {
        /// Wait for bytes, at most until the deadline.
        case wait(Deadline)
        /// Continue when the peer has taken the output.
        case stalled
        /// Continue after the other connections of the loop.
        case nextRound
        /// Ask whether the content of the current request is accepted.
        case judge
        /// The current request is complete; this work makes its response.
        case work(RequestWork)
        case end(Ending)
    }

    enum Ending {
        /// No response is pending: close now.
        case close
        /// Let the last response arrive: see `ServerConfiguration.lingerMilliseconds`.
        case linger
    }

    init(_ connection: Connection, _ context: ServerContext) {
        self.connection = connection
        self.context = context
        http = ServerConnection(limits: context.configuration.limits)
    }

    // MARK: - Serving

    /// Reads, parses and responds from memory until it has to wait. Not called while output is stalled.
    mutating func serve() throws(TransportError) -> Pause {
        var reads = 0
        while true {
            if isOutputFull() { guard try write() else { return .stalled } }
            switch nextStep() {
            case .read:
                if isJudgementDue() { return try flush() ? .judge : .stalled }
                if respondsInsteadOfReading() { continue }
                guard try flush() else { return .stalled }
                guard reads < Self.readsMax else { return .nextRound }
                reads += 1
                if try read() { continue }
                if let deadline = deadlineOfWait() { return .wait(deadline) }
            case .work(let work):
                // Earlier responses of the same batch do not wait for this work.
                if !leavesOutputToRound() { _ = try write() }
                return .work(work)
            case .pause: return try write() ? .nextRound : .stalled
            case .end(let ending): return .end(ending)
            }
        }
    }

    private enum Step {
        case read, pause
        case work(RequestWork)
        case end(Ending)
    }

    /// Handles events until something has to be waited for.
    private mutating func nextStep() -> Step {
        while true {
            switch http.nextEvent() {
            case .needMoreData:
                responsesInRow = 0
                return .read
            case .head(let head): begin(head)
            case .body(let bytes): take(bytes)
            case .end:
                // Content can be expensive, even when rejected: it may be long, and longer when decompressed. So pause
                // after it.
                let hadContent = exchange?.request.body.isEmpty == false
                if let work = respond() { return .work(work) }
                responsesInRow += 1
                if hadContent || responsesInRow >= Self.responsesInRowMax || isOutputFull() {
                    responsesInRow = 0
                    return .pause
                }
            case .refused(let refusal): refuse(refusal.status, refusal.detail)
            case .endOfStream, .truncated: return .end(.close)
            case .responseDue, .closed: return .end(.linger)
            }
        }
    }

    private mutating func begin(_ head: RequestHead) {
        headDeadline = nil
        contentStart = nil
        let (destination, parameters) = destination(of: head)
        var exchange = Exchange(
            destination: destination,
            request: Request(
                method: head.method, path: head.path, query: head.query, fields: head.fields, id: "",
                receivedAtMilliseconds: LoopClock.nowMilliseconds, remoteAddress: connection.remoteAddress,
                parameters: parameters))
        context.middleware.begin(&exchange)
        http.limitBody(toBytes: exchange.bodyBytesMax)
        self.exchange = exchange
    }

    /// Where the request goes, and its path parameters.
    private mutating func destination(of head: RequestHead) -> (Exchange.Destination, [String: String]) {
        switch match(head.method, head.path) {
        case .route(let placed, let parameters): return (.handler(placed), parameters)
        case .options(let allow): return (.noContent(Fields([("Allow", allow)])), [:])
        case .notFound:
            return (.refusal(.notFound, detail: "There is nothing at this path.", fields: Fields()), [:])
        case .methodNotAllowed(let allow):
            let fields = Fields([("Allow", allow)])
            return (.refusal(.methodNotAllowed, detail: "This path does not take this method.", fields: fields), [:])
        }
    }

    /// Most connections repeat one request, so the last match is cached.
    private mutating func match(_ method: Method, _ path: String) -> Router.Match {
        if let last = lastMatch, last.path == path, last.method == method {
            return .route(last.placed, parameters: [:])
        }
        let match = context.router.match(method, path)
        if case .route(let placed, let parameters) = match, parameters.isEmpty {
            lastMatch = (method, path, placed)
        }
        return match
    }

    private mutating func take(_ bytes: [UInt8]) {
        guard case .handler = exchange?.destination else { return }
        let held = exchange?.request.body.capacity ?? 0
        let count = (exchange?.request.body.count ?? 0) + bytes.count
        if held == 0 {
            guard hold(heldBytes + bytes.capacity) else { return shed() }
            exchange?.request.body = bytes
            return
        }
        if count > held {
            // Counted before it is allocated: double the capacity, but no more than the content can still need.
            let capacity = max(count, min(2 * held, count + http.contentBytesLeftMax))
            guard hold(heldBytes + capacity - held) else { return shed() }
            exchange?.request.body.reserveCapacity(capacity)
        }
        exchange?.request.body += bytes
    }

    // MARK: - Judging

    /// True when the content has not been received and the route's judge has not been asked yet. Valid after
    /// `.needMoreData`.
    private func isJudgementDue() -> Bool {
        guard http.phase == .content, exchange?.isJudged == false, case .handler(let placed)? = exchange?.destination
        else { return false }
        return placed.route.judge != nil
    }

    /// nil when no judgement is due.
    mutating func judging() -> (judge: RequestJudge, Request)? {
        guard isJudgementDue(), let exchange, case .handler(let placed) = exchange.destination,
            let judge = placed.route.judge
        else { return nil }
        self.exchange?.isJudged = true
        return (judge, exchange.request)
    }

    /// Accepts the content, or refuses it with a response that ends the connection.
    mutating func take(_ judgement: Judgement) {
        switch judgement {
        case .refused(let response): send(response, close: true)
        case .welcome(let client):
            if !hold(for: client) { shed("You have too many requests under way.") }
        }
    }

    // MARK: - Reading

    /// False when no bytes are available yet.
    private mutating func read() throws(TransportError) -> Bool {
        guard let count = try connection.receive({ http.receive($0) }) else { return false }
        bytesRead += count
        if count == 0 { http.receiveEndOfStream() }
        respondedAt = nil
        return true
    }

    /// Sends 100 (Continue) to a client that waits for it. A refused request gets its final status instead (RFC 9110
    /// section 10.1.1), and its body is not read; then this returns true.
    private mutating func respondsInsteadOfReading() -> Bool {
        guard http.isContinueDue else { return false }
        if exchange?.isRefused == true {
            _ = respond()
            return true
        }
        http.encodeContinue(into: &output)
        return false
    }

    /// Until when to wait for bytes. Releases memory that is not needed meanwhile. nil when the rest does not fit into
    /// the budget; a 503 was made then.
    private mutating func deadlineOfWait() -> Deadline? {
        giveBackOutput()
        guard holdRequest() else {
            shed()
            return nil
        }
        return deadline(http.phase)
    }

    /// The deadline of a wait has passed.
    mutating func endingOfLateRequest() -> Ending {
        if http.phase == .idle { return .close }
        refuseLateRequest()
        return .linger
    }

    /// Only safe requests get 408. Shipped phones discard an event on every 4xx but three, and a slow network must not
    /// lose one, so a request that may carry an event gets 503 (docs/decisions/late-requests.md).
    private mutating func refuseLateRequest() {
        let detail = "The request did not arrive in time. Send it again."
        if http.isSafeRequest {
            refuse(.requestTimeout, detail)
        } else {
            refuse(.serviceUnavailable, detail, retryAfterSeconds: 1)
        }
    }

    private mutating func deadline(_ phase: ServerConnection.Phase) -> Deadline {
        switch phase {
        case .head:
            let deadline = headDeadline ?? .inMilliseconds(context.configuration.headTimeoutMilliseconds)
            headDeadline = deadline
            return deadline
        case .content:
            let start = contentStart ?? (.now, bytesRead)
            contentStart = start
            let received = min(bytesRead - start.bytesRead, 1 << 40)
            let earned = received * 1000 / max(1, context.configuration.bodyBytesPerSecondMin)
            let patience = min(
                context.configuration.bodyTimeoutMilliseconds + earned, context.configuration.bodyTimeMaxMilliseconds)
            return start.at.advanced(byMilliseconds: patience)
        case .idle, .response, .closed:
            if connection.isDraining, drainDeadline == nil {
                drainDeadline = .inMilliseconds(context.configuration.drainIdleMilliseconds)
            }
            let idle = (respondedAt ?? .now).advanced(byMilliseconds: context.configuration.idleTimeoutMilliseconds)
            return min(idle, drainDeadline ?? .never)
        }
    }
}
