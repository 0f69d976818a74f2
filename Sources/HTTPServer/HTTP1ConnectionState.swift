// Decides what a connection does next: turns bytes into events, events into responses, and responses into bytes. This
// type never waits; HTTP1Connection does the waiting.
//
// HTTP1ConnectionState+Responses.swift responds to requests. HTTP1ConnectionState+Output.swift writes the output and
// counts bytes in the budget.
//
// All state that changes from request to request is in one struct. Swift therefore checks exclusive access once per
// batch of requests, instead of once per property.

internal import HTTP1
internal import Sockets

/// Not copyable: its buffers belong to one connection. Used only on the connection's loop.
struct HTTP1ConnectionState: ~Copyable {
    let connection: Connection
    let context: ServerContext
    var http: ServerConnection
    /// The encoded responses. The first `sentBytes` bytes are already sent.
    var output: [UInt8] = []
    var sentBytes = 0
    /// The current request, from its head to its response.
    var exchange: Exchange?
    /// The number of bytes read from the socket so far. The first `bytesTakenBefore` of these bytes belong to requests
    /// that were answered.
    var bytesRead = 0
    var bytesTakenBefore = 0
    /// The number of bytes encoded for the current streamed response.
    var streamedBytes = 0
    /// The time of the last response, from which the idle timeout is counted. Nil if the peer has sent bytes or taken
    /// stalled output after that response. If nil, the idle timeout is counted from the beginning of the wait.
    var respondedAt: Deadline?
    /// The number of bytes that the budget counts for the requests of this connection.
    var heldBytes = 0
    /// The number of the budget's reservation for unsent output; nil if there is no reservation.
    var unsentOutput: UInt64?
    /// The client whose share of the budget includes `heldBytes`: the owner of the credential that the route's judge
    /// accepted, or the address from which an incomplete request comes. Nil if no share includes them.
    var client: String?

    var streaming: (exchange: Exchange, status: Status)?

    /// The number of responses made in a row without a task (`responsesInRowMax`).
    private var responsesInRow = 0
    /// The most recent request that matched a route without path parameters.
    private var lastMatch: (method: Method, path: String, placed: RegisteredRoute)?

    private var headDeadline: Deadline?
    private var contentStart: (at: Deadline, bytesRead: Int)?
    /// While the server drains, the client of an idle connection may send one more request until this time. Set when
    /// the connection is first found idle during the drain.
    private var drainDeadline: Deadline?

    /// The maximum number of responses in a row without a task. After them, the loop's other connections run. Making
    /// this many responses takes less than half a millisecond.
    private static let responsesInRowMax = 64
    /// The maximum number of reads in a row. After them, the loop's other connections run.
    private static let readsMax = 8

    /// What HTTP1Connection must do before this type can continue.
    enum Pause {
        /// Wait for bytes, at most until the deadline.
        case wait(Deadline)
        /// Continue when the peer has taken the output.
        case stalled
        /// Continue after the other connections of the loop have run.
        case nextRound
        /// Ask the route's judge whether the content of the current request is accepted.
        case judge
        /// The current request is complete; this work makes its response.
        case work(RequestWork)
        case end(Ending)
    }

    enum Ending {
        /// Write the rest of the output, then close. No received byte is unread, so closing does not reset the
        /// connection.
        case close
        /// Give the client time to read the last response: see `ServerConfiguration.lingerMilliseconds`.
        case linger
    }

    init(_ connection: Connection, _ context: ServerContext) {
        self.connection = connection
        self.context = context
        http = ServerConnection(limits: context.configuration.limits)
    }

    // MARK: - Serving

    /// Reads and parses requests, and answers them from memory, until the connection has to wait. Must not be called
    /// while output is stalled.
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
                // Write the responses to earlier requests, now or at the end of this round. They must not wait until
                // the work of the current request is done.
                if !deferWriteToRoundEnd() { _ = try write() }
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

    /// Handles events until one of them requires a step that `serve` must take. Returns this step.
    private mutating func nextStep() -> Step {
        while true {
            switch http.nextEvent() {
            case .needMoreData:
                responsesInRow = 0
                return .read
            case .head(let head): begin(head)
            case .body(let bytes): take(bytes)
            case .end:
                // Handling a request with content can take long, because the content may be large, and even larger
                // after decompression. The loop's other connections therefore run after each such request.
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
        http.limitBody(toBytes: exchange.request.bodyBytesMax)
        self.exchange = exchange
    }

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

    /// Finds the route of a request. The last match is cached, because most connections repeat the same request.
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
            // Count the new capacity in the budget before allocating it. The capacity is doubled, so that the content
            // is rarely copied. The new capacity never exceeds the maximum length of the content.
            let capacity = max(count, min(2 * held, count + http.contentBytesLeftMax))
            guard hold(heldBytes + capacity - held) else { return shed() }
            exchange?.request.body.reserveCapacity(capacity)
        }
        exchange?.request.body += bytes
    }

    // MARK: - Judging

    /// Returns whether the route's judge (`RequestJudge`) must be asked. The judge is asked at most once per request,
    /// and only while the content is incomplete. The value that this function returns is valid only after
    /// `.needMoreData`.
    private func isJudgementDue() -> Bool {
        guard http.phase == .content, exchange?.isJudged == false, case .handler(let placed)? = exchange?.destination
        else { return false }
        return placed.route.judge != nil
    }

    /// Returns the judge and the request; nil if no judgement is due.
    mutating func judging() -> (judge: RequestJudge, Request)? {
        guard isJudgementDue(), let exchange, case .handler(let placed) = exchange.destination,
            let judge = placed.route.judge
        else { return nil }
        self.exchange?.isJudged = true
        return (judge, exchange.request)
    }

    /// Accepts or refuses the content. A refusal ends the connection. The content is also refused if the held bytes do
    /// not fit into the client's share of the budget.
    mutating func take(_ judgement: Judgement) {
        switch judgement {
        case .refused(let response): send(response, close: true)
        case .welcome(let client):
            if !hold(for: client) { shed("You have too many requests under way.") }
        }
    }

    // MARK: - Reading

    /// Reads once. Returns false if no bytes are available yet.
    private mutating func read() throws(TransportError) -> Bool {
        guard let count = try connection.receive({ http.receive($0) }) else { return false }
        bytesRead += count
        if count == 0 { http.receiveEndOfStream() }
        respondedAt = nil
        return true
    }

    /// If the client waits for 100 (Continue), encodes 100 and returns false.
    ///
    /// If the client waits but the request is already refused, encodes the final response instead of 100 (RFC 9110
    /// section 10.1.1). Then returns true, and the body is not read.
    private mutating func respondsInsteadOfReading() -> Bool {
        guard http.isContinueDue else { return false }
        if exchange?.isRefused == true {
            _ = respond()
            return true
        }
        http.encodeContinue(into: &output)
        return false
    }

    /// Prepares to wait for bytes: frees unneeded memory and returns the deadline. If the remaining memory does not fit
    /// into the budget, responds with 503 and returns nil.
    private mutating func deadlineOfWait() -> Deadline? {
        shrinkOutput()
        guard holdRequest(), holdForAddress() else {
            shed()
            return nil
        }
        return deadline(http.phase)
    }

    /// Handles a deadline that has passed. Returns how the connection ends.
    mutating func endingOfLateRequest() -> Ending {
        if http.phase == .idle { return .close }
        refuseLateRequest()
        return .linger
    }

    /// Refuses a request that did not arrive in time. A GET, HEAD or OPTIONS request gets 408. Any other request gets
    /// 503, because it may carry an event.
    ///
    /// The app versions in use discard an event if the response is 408 (docs/decisions/late-requests.md). They discard
    /// it after every 4xx status except 401, 403 and 429.
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
            let waitMilliseconds = min(
                context.configuration.bodyTimeoutMilliseconds + earned, context.configuration.bodyTimeMaxMilliseconds)
            return start.at.advanced(byMilliseconds: waitMilliseconds)
        case .idle, .response, .closed:
            // An empty line before a request (RFC 9112 section 2.2) is not part of a head. The connection stays idle,
            // and the time limit for the head does not begin.
            headDeadline = nil
            if connection.isDraining, drainDeadline == nil {
                drainDeadline = .inMilliseconds(context.configuration.drainIdleMilliseconds)
            }
            let idle = (respondedAt ?? .now).advanced(byMilliseconds: context.configuration.idleTimeoutMilliseconds)
            return min(idle, drainDeadline ?? .never)
        }
    }
}
