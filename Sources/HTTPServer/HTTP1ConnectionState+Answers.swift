// From a request that is complete, or refused, to the bytes of its answer.

internal import HTTP1
internal import Sockets

extension HTTP1ConnectionState {
    /// Responds to the request in hand, which is complete or refused, from memory. Returns the work that makes the
    /// response, where that is not enough.
    mutating func respond() -> RequestWork? {
        // Taken out rather than copied: its parts are many.
        guard let exchange = exchange.take() else { return nil }
        let response: Response
        switch exchange.destination {
        case .handler(let placed):
            switch placed.route.responder(exchange.request) {
            case .response(let fromMemory): response = fromMemory
            case .work(let work):
                self.exchange = exchange
                return work
            }
        case .noContent(let fields): response = Response(status: .noContent, fields: fields)
        case .refusal(let status, let detail, let fields): response = rendered(status, detail, fields, exchange)
        }
        send(response, to: exchange, atMilliseconds: exchange.request.receivedAtMilliseconds)
        holdRequest()
        return nil
    }

    /// Answers the request in hand, or the beginning of one, and ends the connection. What was decided when the head
    /// came goes first: a body that is too long for a path that does not exist is 404.
    mutating func refuse(_ status: Status, _ detail: String, retryAfterSeconds: Int? = nil) {
        var fields = Fields()
        if let retryAfterSeconds { fields.append("Retry-After", String(retryAfterSeconds)) }
        let exchange =
            exchange
            ?? Exchange(
                destination: .refusal(status, detail: detail, fields: fields),
                request: Request(
                    method: .get, path: "", fields: http.receivedFields, id: RequestID.of(http.receivedFields),
                    receivedAtMilliseconds: LoopClock.nowMilliseconds, remoteAddress: connection.remoteAddress),
                hasHead: false)
        self.exchange = exchange
        var refusal = (status: status, detail: detail, fields: fields)
        if case .refusal(let status, let detail, let fields) = exchange.destination {
            refusal = (status, detail, fields)
        }
        send(rendered(refusal.status, refusal.detail, refusal.fields, exchange), close: true)
    }

    private func rendered(_ status: Status, _ detail: String, _ fields: Fields, _ exchange: Exchange) -> Response {
        context.refusals(RefusedRequest(status: status, detail: detail, requestID: exchange.request.id, fields: fields))
    }

    // MARK: - Sending

    /// Answers the exchange in hand, which ends with it.
    mutating func send(_ response: Response, close: Bool = false) {
        guard let exchange = takeExchange() else { return }
        send(response, to: exchange, close: close, atMilliseconds: LoopClock.nowMilliseconds)
    }

    /// Streamed bodies are ignored for rejections.
    private mutating func send(
        _ response: Response, to exchange: consuming Exchange, close: Bool = false, atMilliseconds milliseconds: Int64
    ) {
        let before = output.count
        var bytes: [UInt8] = []
        if case .bytes(let content) = response.body { bytes = content }
        http.encode(
            status: response.status, fields: fields(of: response, to: exchange), body: bytes,
            dateText: dateText(milliseconds),
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

    /// The fields of every answer: of a handler, a refusal or a stream.
    private func fields(of response: Response, to exchange: Exchange) -> Fields {
        guard let crossOrigin = context.configuration.crossOrigin else { return response.fields }
        var fields = response.fields
        crossOrigin.allow(exchange.request.fields, in: &fields)
        return fields
    }

    private func dateText(_ milliseconds: Int64) -> String {
        context.clocks[connection.loop.index].dateText(milliseconds)
    }

    private mutating func observe(_ exchange: Exchange, _ status: Status, _ bytesOut: Int) {
        let bytesTaken = bytesRead - http.bufferedBytes
        let bytesIn = max(0, bytesTaken - bytesTakenBefore)
        let now = Deadline.now
        respondedAt = now
        let duration = now.nanoseconds &- exchange.startedAt.nanoseconds
        let placed = exchange.placed
        context.metrics.answered(
            placed?.place, exchange.method, status, nanoseconds: duration, bytesIn: bytesIn, bytesOut: bytesOut)
        context.observer.answered(
            CompletedRequest(
                requestID: exchange.request.id, method: exchange.method, routeTemplate: placed?.route.template,
                status: status, durationNanoseconds: duration, bytesIn: bytesIn, bytesOut: bytesOut,
                remoteAddress: exchange.request.remoteAddress, addressGap: exchange.addressGap,
                principal: exchange.principal, refusalReason: exchange.refusalReason,
                traceParent: exchange.request.fields.first("traceparent")))
        bytesTakenBefore = bytesTaken
    }

    // MARK: - Streaming

    /// Makes the head alone; the response ends with `endStream`. False when no response is due.
    mutating func beginStream(_ response: Response) -> Bool {
        guard var exchange = takeExchange() else { return false }
        exchange.note(response)
        let before = output.count
        http.encodeHead(
            status: response.status, fields: fields(of: response, to: exchange),
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
