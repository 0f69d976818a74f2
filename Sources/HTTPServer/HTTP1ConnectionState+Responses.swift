// Turns a complete or refused request into the bytes of its response.

internal import HTTP1
internal import Sockets

extension HTTP1ConnectionState {
    /// Responds to the current request, which is complete or refused. If the response needs a task, sends nothing and
    /// returns the work of that task.
    mutating func respond() -> RequestWork? {
        // Take the exchange out of the property instead of copying it. A copy would retain each of its many references.
        guard var exchange = exchange.take() else { return nil }
        var response: Response
        switch exchange.destination {
        case .handler(let placed):
            switch placed.route.responder(exchange.request) {
            case .response(let fromMemory): response = fromMemory
            case .work(let work):
                self.exchange = exchange
                return work
            }
        case .noContent(let fields): response = Response(status: .noContent, fields: fields)
        case .refusal(let status, let detail, let fields):
            response = Response(status: status, fields: fields)
            exchange.refusalDetail = detail
        }
        send(&response, to: exchange, atMilliseconds: exchange.request.receivedAtMilliseconds)
        holdRequest()
        return nil
    }

    /// Refuses the current request, whose head may be incomplete, and ends the connection.
    ///
    /// If the head already led to a refusal, sends that refusal instead. Example: if the path does not exist and the
    /// body is too long, the response is 404.
    mutating func refuse(_ status: Status, _ detail: String, retryAfterSeconds: Int? = nil) {
        var fields = Fields()
        if let retryAfterSeconds { fields.append("Retry-After", String(retryAfterSeconds)) }
        var exchange = exchange ?? exchangeWithoutHead(status, detail, fields)
        var refusal = (status: status, detail: detail, fields: fields)
        if case .refusal(let status, let detail, let fields) = exchange.destination {
            refusal = (status, detail, fields)
        }
        exchange.refusalDetail = refusal.detail
        self.exchange = exchange
        send(Response(status: refusal.status, fields: refusal.fields), close: true)
    }

    private func exchangeWithoutHead(_ status: Status, _ detail: String, _ fields: Fields) -> Exchange {
        var exchange = Exchange(
            destination: .refusal(status, detail: detail, fields: fields),
            request: Request(
                method: .get, path: "", fields: http.receivedFields, id: "",
                receivedAtMilliseconds: LoopClock.nowMilliseconds, remoteAddress: connection.remoteAddress),
            hasHead: false)
        context.middleware.begin(&exchange)
        return exchange
    }

    // MARK: - Sending

    mutating func send(_ response: Response, close: Bool = false) {
        guard let exchange = takeExchange() else { return }
        var response = response
        send(&response, to: exchange, close: close, atMilliseconds: LoopClock.nowMilliseconds)
        // Encoding the response has freed the fields of the request, so the budget must no longer count them.
        holdRequest()
    }

    /// Sends a response whose body is in memory. A streamed body would be sent empty; `beginStream` sends streams.
    private mutating func send(
        _ response: inout Response, to exchange: consuming Exchange, close: Bool = false,
        atMilliseconds milliseconds: Int64
    ) {
        let before = output.count
        context.middleware.respond(&response, to: exchange)
        var bytes: [UInt8] = []
        if case .bytes(let content) = response.body { bytes = content }
        http.encode(
            status: response.status, fields: response.fields, body: bytes, dateText: dateText(milliseconds),
            requestID: exchange.request.id, close: close || connection.isDraining, into: &output)
        exchange.note(response)
        observe(exchange, response.status, output.count - before)
    }

    /// Takes the exchange out of the state, and returns the request's bytes to the budget.
    private mutating func takeExchange() -> Exchange? {
        let taken = exchange.take()
        holdRequest()
        return taken
    }

    private func dateText(_ milliseconds: Int64) -> String {
        context.clocks[connection.loop.index].dateText(milliseconds)
    }

    private mutating func observe(_ exchange: Exchange, _ status: Status, _ bytesOut: Int) {
        let bytesTaken = bytesRead - http.bufferedBytes
        let now = Deadline.now
        respondedAt = now
        context.middleware.end(
            exchange,
            ExchangeOutcome(
                status: status, durationNanoseconds: now.nanoseconds &- exchange.startedAt.nanoseconds,
                bytesIn: max(0, bytesTaken - bytesTakenBefore), bytesOut: bytesOut))
        bytesTakenBefore = bytesTaken
    }

    // MARK: - Streaming

    /// Encodes the head of a streamed response. `endStream` ends the response. Returns false if no response is due.
    mutating func beginStream(_ response: Response) -> Bool {
        guard var exchange = takeExchange() else { return false }
        var response = response
        context.middleware.respond(&response, to: exchange)
        exchange.note(response)
        let before = output.count
        http.encodeHead(
            status: response.status, fields: response.fields,
            dateText: dateText(LoopClock.nowMilliseconds),
            requestID: exchange.request.id, close: connection.isDraining, into: &output)
        streamedBytes = output.count - before
        streaming = (exchange, response.status)
        return true
    }

    var streamHasContent: Bool { streaming?.exchange.method != .head }

    /// Encodes the next chunk. Returns false if no stream has begun, or if the stream has ended.
    mutating func encodeChunk(_ bytes: [UInt8]) -> Bool {
        let before = output.count
        guard http.encodeChunk(bytes, into: &output) else { return false }
        streamedBytes += output.count - before
        return true
    }

    mutating func endStream() {
        guard let (exchange, status) = streaming.take() else { return }
        let before = output.count
        http.encodeEnd(into: &output)
        observe(exchange, status, streamedBytes + output.count - before)
    }

    /// Logs and counts a streamed response that ends early. The last chunk is not sent, so the client can tell that the
    /// response is incomplete.
    mutating func breakOffStream() {
        guard let (exchange, status) = streaming.take() else { return }
        observe(exchange, status, streamedBytes)
    }
}
