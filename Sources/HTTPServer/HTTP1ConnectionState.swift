// What a connection does next: bytes to events, events to responses, responses to bytes. It never waits; that and the
// socket are HTTP1Connection's. How a response is made is in HTTP1ConnectionState+Answers.swift, what is made and not
// written, and what the budget counts of it, in HTTP1ConnectionState+Output.swift.
//
// A value with all that changes from request to request, so that its owner checks once for a batch of requests
// that nobody else is at it, and not once for each of its parts.

internal import HTTP1
internal import Sockets

/// Not copyable: its buffers belong to one connection. To be used on the connection's loop.
struct HTTP1ConnectionState: ~Copyable {
    let connection: Connection
    let context: ServerContext
    var http: ServerConnection
    /// Made and not written yet.
    var output: [UInt8] = []
    /// Of `output`, at its beginning.
    var sentBytes = 0
    /// Between `.head` and the answer.
    var exchange: Exchange?
    /// Bytes read so far, and how many of them belong to requests that were answered.
    var bytesRead = 0
    var bytesTakenBefore = 0
    /// Of the streamed answer in hand, so far.
    var streamedBytes = 0
    /// The last answer's moment.
    var respondedAt: Deadline?
    /// Taken from the budget.
    var heldBytes = 0
    /// Of those, for output that the peer has not taken.
    var heldOutputBytes = 0
    /// Whose part of the budget that is: of the request in hand, once its credential was judged.
    var client: String?

    /// The streamed response in hand.
    var streaming: (exchange: Exchange, status: Status)?

    /// Since another connection of the loop had its turn, or there was nothing more to answer.
    private var responsesInRow = 0
    /// The last request that its path alone led to a route.
    private var lastMatch: (method: Method, path: String, placed: RegisteredRoute)?

    private var headDeadline: Deadline?
    private var contentStart: (at: Deadline, bytesRead: Int)?
    /// From the moment a drain found the connection idle.
    private var drainDeadline: Deadline?

    /// Responses from memory, after which the other connections of the loop have a turn: under half a millisecond.
    private static let responsesInRowMax = 64
    /// Reads in a row, after which they have one too.
    private static let readsMax = 8

    /// What its owner does when nothing more can be done here.
    enum Pause {
        /// Wait for bytes, at most until then.
        case wait(Deadline)
        /// Go on when the peer has taken the output.
        case stalled
        /// Go on when the other connections had a turn.
        case nextRound
        /// Find out whether the content of the request in hand may come.
        case judge
        /// The request in hand is complete; this makes its response.
        case work(RequestWork)
        case end(Ending)
    }

    enum Ending {
        /// Nobody waits for anything.
        case close
        /// The last answer must arrive: see `ServerConfiguration.lingerMilliseconds`.
        case linger
    }

    init(_ connection: Connection, _ context: ServerContext) {
        self.connection = connection
        self.context = context
        http = ServerConnection(limits: context.configuration.limits)
    }

    // MARK: - Serving

    /// Reads, parses and responds from memory, as far as that goes now. To be called while no output is stalled.
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
                // Earlier responses of the same batch do not wait for it.
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

    /// Takes events until one has to wait.
    private mutating func nextStep() -> Step {
        while true {
            switch http.nextEvent() {
            case .needMoreData:
                responsesInRow = 0
                return .read
            case .head(let head): begin(head)
            case .body(let bytes): take(bytes)
            case .end:
                // Content that was decoded and rejected may have been long, and longer decompressed.
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

    /// Where the request goes, and the parts of its path that a template names.
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

    /// Most connections ask for one thing again and again.
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
            // What is allocated is counted, before it is: twice as much, and no more than can still come.
            let capacity = max(count, min(2 * held, count + http.contentBytesLeftMax))
            guard hold(heldBytes + capacity - held) else { return shed() }
            exchange?.request.body.reserveCapacity(capacity)
        }
        exchange?.request.body += bytes
    }

    // MARK: - Judging

    /// The content of the request in hand has not come, and nobody has judged yet whether it may. Ask after
    /// `.needMoreData`.
    private func isJudgementDue() -> Bool {
        guard http.phase == .content, exchange?.isJudged == false, case .handler(let placed)? = exchange?.destination
        else { return false }
        return placed.route.judge != nil
    }

    /// nil when there is nothing to be judged.
    mutating func judging() -> (judge: RequestJudge, Request)? {
        guard isJudgementDue(), let exchange, case .handler(let placed) = exchange.destination,
            let judge = placed.route.judge
        else { return nil }
        self.exchange?.isJudged = true
        return (judge, exchange.request)
    }

    /// The content may come, or it was refused and the connection ends with the response.
    mutating func take(_ judgement: Judgement) {
        switch judgement {
        case .refused(let response): send(response, close: true)
        case .welcome(let client):
            if !hold(for: client) { shed("You have too many requests under way.") }
        }
    }

    // MARK: - Reading

    /// False when there is nothing yet.
    private mutating func read() throws(TransportError) -> Bool {
        guard let count = try connection.receive({ http.receive($0) }) else { return false }
        bytesRead += count
        if count == 0 { http.receiveEndOfStream() }
        respondedAt = nil
        return true
    }

    /// A client that waits for 100 (Continue) gets it, unless its request is refused (RFC 9110 section 10.1.1): then
    /// a final status instead, and its body will not be read.
    private mutating func respondsInsteadOfReading() -> Bool {
        guard http.isContinueDue else { return false }
        if exchange?.isRefused == true {
            _ = respond()
            return true
        }
        http.encodeContinue(into: &output)
        return false
    }

    /// Until when to wait for bytes; what is not needed meanwhile is given back. nil when the budget has no room for what
    /// is, and a 503 was made.
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

    /// 408 is for who only asks. Shipped phones drop an event for every status of 4xx but three, and a bad network is
    /// no reason to lose one: what may be an event is answered 503 (docs/decisions/late-requests.md).
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
