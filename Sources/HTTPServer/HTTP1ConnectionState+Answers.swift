// From a request that is complete, or refused, to the bytes of its answer.

internal import HTTP1
internal import Sockets

extension HTTP1ConnectionState {
    /// Responds to the request in hand, which is complete or refused, from memory. Returns the work that makes the
    /// response, where that is not enough.
    mutating func respond() -> RequestWork? {
        // Taken out rather than copied: its parts are many.
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

    /// Answers the request in hand, or the beginning of one, and ends the connection. What was decided when the head
    /// came goes first: a body that is too long for a path that does not exist is 404.
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

    /// Answers the exchange in hand, which ends with it.
    mutating func send(_ response: Response, close: Bool = false) {
        guard let exchange = takeExchange() else { return }
        var response = response
        send(&response, to: exchange, close: close, atMilliseconds: LoopClock.nowMilliseconds)
    }

    /// Streamed bodies are ignored for rejections.
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

    /// What it made the server hold is given back.
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

    /// Makes the head alone; the response ends with `endStream`. False when no response is due.
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

    /// False in response to HEAD.
    var streamHasContent: Bool { streaming?.exchange.method != .head }

    /// False when no stream has begun, or it has ended.
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
}
