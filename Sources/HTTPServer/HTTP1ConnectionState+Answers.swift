// From a request that is complete, or refused, to the bytes of its answer.

internal import HTTP1
internal import Sockets

extension HTTP1ConnectionState {
    /// nil when no handler is to be asked. Mutating, like all that a task asks for: what only borrows a value of this
    /// size is handed a copy of it, in the task's frame.
    @inline(never) mutating func handling() -> (handler: RequestHandler, Request)? {
        guard case .handler(let placed)? = exchange?.destination, let request = exchange?.request else { return nil }
        return (placed.route.handler, request)
    }

    /// For who asked `handling`, and a task whose frame has no room for what an answer is made of.
    @inline(never) mutating func answerWithoutHandler() {
        _ = answerAtOnce()
    }

    /// Answers what needs no waiting. False when the handler has to be asked.
    mutating func answerAtOnce() -> Bool {
        // Taken out rather than copied: its parts are many.
        guard let exchange = exchange.take() else { return true }
        let response: Response
        switch exchange.destination {
        case .handler(let placed):
            guard let atOnce = placed.route.atOnce, let answer = atOnce(exchange.request) else {
                self.exchange = exchange
                return false
            }
            response = answer
        case .noContent(let fields): response = Response(status: .noContent, fields: fields)
        case .refusal(let status, let detail, let fields): response = rendered(status, detail, fields, exchange)
        }
        send(response, to: exchange, atMilliseconds: exchange.request.receivedAtMilliseconds)
        holdRequest()
        return true
    }

    /// Answers the request in hand, or the beginning of one, and ends the connection. What was decided when the head
    /// came goes first: a body that is too long for a path that does not exist is 404.
    @inline(never) mutating func refuse(_ status: Status, _ detail: String, retryAfterSeconds: Int? = nil) {
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
        serving.refusals(RefusedRequest(status: status, detail: detail, requestID: exchange.request.id, fields: fields))
    }

    // MARK: - Sending

    /// Answers the exchange in hand, which ends with it.
    @inline(never) mutating func send(_ response: Response, close: Bool = false) {
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
        guard let crossOrigin = serving.configuration.crossOrigin else { return response.fields }
        var fields = response.fields
        crossOrigin.allow(exchange.request.fields, in: &fields)
        return fields
    }

    private func dateText(_ milliseconds: Int64) -> String {
        serving.clocks[connection.loop.index].dateText(milliseconds)
    }

    private mutating func observe(_ exchange: Exchange, _ status: Status, _ bytesOut: Int) {
        let bytesTaken = bytesRead - http.bufferedBytes
        let bytesIn = max(0, bytesTaken - bytesTakenBefore)
        let now = Deadline.now
        answeredAt = now
        let duration = now.nanoseconds &- exchange.startedAt.nanoseconds
        let placed = exchange.placed
        serving.metrics.answered(
            placed?.place, exchange.method, status, nanoseconds: duration, bytesIn: bytesIn, bytesOut: bytesOut)
        serving.observer.answered(
            CompletedRequest(
                requestID: exchange.request.id, method: exchange.method, routeTemplate: placed?.route.template,
                status: status, durationNanoseconds: duration, bytesIn: bytesIn, bytesOut: bytesOut,
                remoteAddress: exchange.request.remoteAddress, addressGap: exchange.addressGap,
                principal: exchange.principal, refusalReason: exchange.refusalReason,
                traceParent: exchange.request.fields.first("traceparent")))
        bytesTakenBefore = bytesTaken
    }

    // MARK: - Streaming

    /// Answers the head alone; the answer ends with `endStream`.
    @inline(never) mutating func beginStream(_ response: Response) -> Exchange? {
        guard var exchange = takeExchange() else { return nil }
        exchange.note(response)
        http.encodeHead(
            status: response.status, fields: fields(of: response, to: exchange),
            dateText: dateText(LoopClock.nowMilliseconds),
            requestID: exchange.request.id, close: connection.isDraining, into: &output)
        streamedBytes = output.count
        return exchange
    }

    /// False when no stream has begun, or it has ended.
    @inline(never) mutating func encodeChunk(_ bytes: [UInt8]) -> Bool {
        guard http.encodeChunk(bytes, into: &output) else { return false }
        streamedBytes += output.count
        return true
    }

    @inline(never) mutating func endStream(_ exchange: Exchange, _ status: Status) {
        let before = output.count
        http.encodeEnd(into: &output)
        observe(exchange, status, streamedBytes + output.count - before)
    }
}
