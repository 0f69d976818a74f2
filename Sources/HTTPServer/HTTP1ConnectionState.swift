// One side of a conversation, as far as nothing has to be waited for: bytes to events, events to answers, answers to
// bytes. It says what comes next; waiting is HTTP1Connection's, and what an answer is made of is in
// HTTP1ConnectionState+Answers.swift.
//
// What it has made and not written, and what the budget counts of it, is dealt with in HTTP1ConnectionState+Output.swift.
//
// A value with all that changes from request to request, so that its owner checks once for a batch of requests
// that nobody else is at it, and not once for each of its parts.

internal import HTTP1
internal import Sockets

/// Not copyable: its buffers belong to one connection. To be used on the connection's loop.
struct HTTP1ConnectionState: ~Copyable {
    let connection: Connection
    let serving: ServerContext
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
    /// The last answer's moment.
    var answeredAt: Deadline?
    /// Taken from the budget.
    var heldBytes = 0
    /// Whose part of the budget that is: of the request in hand, once its credential was judged.
    var client: String?

    /// What was found while the task waited, and needs it.
    private(set) var stepInHand: Step?
    /// Since another connection of the loop had its turn, or there was nothing more to answer.
    private var answersAtOnce = 0
    /// The last request that its path alone led to a route.
    private var lastMatch: (method: Method, path: String, placed: RegisteredRoute)?

    private var headDeadline: Deadline?
    private var contentStart: (at: Deadline, bytesRead: Int)?
    /// From the moment a drain found the connection idle.
    private var drainDeadline: Deadline?

    /// A refused request's body is read up to here, so that the connection can go on.
    private static let discardedBodyBytesMax = 64 << 10
    /// So many are answered at once, then the other connections of the loop have a turn: under half a millisecond.
    private static let answersAtOnceMax = 64

    enum Step {
        case read, answer
        /// Enough was answered at once.
        case pause
        case end(Ending)
    }

    enum Ending {
        /// Nobody waits for anything.
        case close
        /// The last answer must arrive: see `ServerConfiguration.lingerMilliseconds`.
        case linger
    }

    struct Wait {
        var deadline: Deadline
        var endsOnDrain: Bool
    }

    init(_ connection: Connection, _ serving: ServerContext) {
        self.connection = connection
        self.serving = serving
        http = ServerConnection(limits: serving.configuration.limits)
    }

    // MARK: - Events

    @inline(never) mutating func takeStep() -> Step {
        guard let step = stepInHand else { return nextStep() }
        stepInHand = nil
        return step
    }

    /// Takes events as far as they can be dealt with at once.
    private mutating func nextStep() -> Step {
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
                if answersAtOnce >= Self.answersAtOnceMax || isOutputFull() {
                    answersAtOnce = 0
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
        let client = serving.configuration.trustedProxies.clientAddress(
            peer: connection.remoteAddress, head.fields)
        exchange = Exchange(
            destination: destination,
            request: Request(
                method: head.method, path: head.path, query: head.query, fields: head.fields,
                id: RequestID.of(head.fields), receivedAtMilliseconds: LoopClock.nowMilliseconds,
                remoteAddress: client.text, parameters: parameters),
            addressGap: client.gap)
    }

    /// What becomes of the request, and the parts of its path that a template names.
    private mutating func destination(of head: RequestHead) -> (Exchange.Destination, [String: String]) {
        let preflight = serving.configuration.crossOrigin?.preflightAnswer(
            head.method, head.fields, methods: serving.router.allowOfServer)
        if let preflight {
            http.limitBody(toBytes: HTTP1ConnectionState.discardedBodyBytesMax)
            return (.noContent(preflight), [:])
        }
        switch match(head.method, head.path) {
        case .route(let placed, let found):
            http.limitBody(toBytes: placed.route.bodyBytesMax)
            return (.handler(placed), found)
        case .options(let allow):
            http.limitBody(toBytes: HTTP1ConnectionState.discardedBodyBytesMax)
            return (.noContent(Fields([("Allow", allow)])), [:])
        case .notFound:
            http.limitBody(toBytes: HTTP1ConnectionState.discardedBodyBytesMax)
            return (.refusal(.notFound, detail: "There is nothing at this path.", fields: Fields()), [:])
        case .methodNotAllowed(let allow):
            http.limitBody(toBytes: HTTP1ConnectionState.discardedBodyBytesMax)
            let fields = Fields([("Allow", allow)])
            return (
                .refusal(.methodNotAllowed, detail: "This path does not take this method.", fields: fields), [:]
            )
        }
    }

    /// Most connections ask for one thing again and again.
    private mutating func match(_ method: Method, _ path: String) -> Router.Match {
        if let last = lastMatch, last.path == path, last.method == method {
            return .route(last.placed, parameters: [:])
        }
        let match = serving.router.match(method, path)
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
    @inline(never) mutating func isJudgementDue() -> Bool {
        guard http.phase == .content, let exchange, !exchange.isJudged, case .handler(let placed) = exchange.destination
        else { return false }
        return placed.route.judge != nil
    }

    /// nil when there is nothing to be judged.
    @inline(never) mutating func judging() -> (judge: RequestJudge, Request)? {
        guard isJudgementDue(), let exchange, case .handler(let placed) = exchange.destination,
            let judge = placed.route.judge
        else { return nil }
        self.exchange?.isJudged = true
        return (judge, exchange.request)
    }

    /// True: the content may come. False: it was refused, and the connection ends with the answer.
    @inline(never) mutating func take(_ judgement: Judgement) -> Bool {
        switch judgement {
        case .refused(let response):
            send(response, close: true)
            return false
        case .welcome(let client):
            if hold(for: client) { return true }
            shed("You have too many requests under way.")
            return false
        }
    }

    // MARK: - Reading

    /// What may be read is read and answered without the task. True: all of it was, and the wait goes on.
    mutating func serveWhileWaiting() -> Bool {
        do throws(TransportError) {
            guard let count = try readAtOnce() else { return true }
            // The task reads the end once more.
            if count == 0 { return false }
            answeredAt = nil
            let step = nextStep()
            guard case .read = step, !isJudgementDue(), !http.isContinueDue, leavesOutputToRound() else {
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

    /// The same for the task: it was woken because of bytes, or because something was left to it.
    @inline(never) mutating func readOnceWoken() throws(TransportError) {
        if stepInHand == nil, try readAtOnce() == 0 { http.receiveEndOfStream() }
    }

    /// How many bytes there were, 0 at the end of the stream; nil when there is nothing yet.
    private mutating func readAtOnce() throws(TransportError) -> Int? {
        let count = try connection.readAtOnce { http.receive($0) }
        bytesRead += count ?? 0
        return count
    }

    /// A client that waits for 100 (Continue) gets it, unless its request is refused (RFC 9110 section 10.1.1): then
    /// a final status instead, and its body will not be read.
    @inline(never) mutating func answersInsteadOfReading() -> Bool {
        guard http.isContinueDue else { return false }
        if exchange?.isRefused == true { return true }
        http.encodeContinue(into: &output)
        return false
    }

    /// What is not needed while waiting is given back. nil when the budget has no room for what is, which is answered.
    /// `start`: when the wait between requests began, if that was just now.
    @inline(never) mutating func wait(since start: Deadline? = nil) -> Wait? {
        giveBackOutput()
        guard holdRequest() else {
            shed()
            return nil
        }
        let phase = http.phase
        return Wait(
            deadline: deadline(phase, start), endsOnDrain: phase == .idle && drainDeadline == nil)
    }

    /// nil when the connection goes on.
    @inline(never) mutating func ending(after error: TransportError) throws(TransportError) -> Ending? {
        let phase = http.phase
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
    private mutating func refuseLateRequest() {
        let detail = "The request did not arrive in time. Send it again."
        if http.isSafeRequest {
            refuse(.requestTimeout, detail)
        } else {
            refuse(.serviceUnavailable, detail, retryAfterSeconds: 1)
        }
    }

    private mutating func deadline(_ phase: ServerConnection.Phase, _ start: Deadline?) -> Deadline {
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
            let patience = min(
                serving.configuration.bodyTimeoutMilliseconds + earned, serving.configuration.bodyTimeMaxMilliseconds)
            return start.at.advanced(byMilliseconds: patience)
        case .idle, .response, .closed:
            let idle = (start ?? .now).advanced(byMilliseconds: serving.configuration.idleTimeoutMilliseconds)
            return min(idle, drainDeadline ?? .never)
        }
    }
}
