// From a request that is complete, or refused, to the bytes of its answer.

internal import HTTP1
internal import Logging
internal import Sockets

extension ServedConnection {
    /// The request in hand, as it was decided when its head came.
    nonisolated(nonsending) func answer() async throws(TransportError) {
        if let (handler, request) = handling() {
            // A client that goes away cancels this task (ListenerGroup): what the handler waits for ends at once, what
            // it commits does not depend on who is still there.
            let response = await handler(request)
            if case .stream(let produce) = response.body {
                try await flush()
                return try await stream(produce, response)
            }
            send(response)
        } else {
            _ = answerAtOnce()
        }
        if output.count > serving.configuration.outputBytesMax { try await flush() }
    }

    /// nil when no handler is to be asked.
    @inline(never) private func handling() -> (handler: @Sendable (Request) async -> Response, Request)? {
        guard case .handler(let placed)? = exchange?.destination, let request = exchange?.request else { return nil }
        return (placed.route.handler, request)
    }

    /// Answers what needs no waiting. False when the handler has to be asked.
    func answerAtOnce() -> Bool {
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
        case .options(let allow): response = Response(status: .noContent, fields: Fields([("Allow", allow)]))
        case .refusal(let status, let detail, let fields): response = rendered(status, detail, fields, exchange)
        }
        send(response, to: exchange, atMilliseconds: exchange.request.receivedAtMilliseconds)
        _ = holdRequest()
        return true
    }

    /// Answers the request in hand, or the beginning of one, and ends the connection. What was decided when the head
    /// came goes first: a body that is too long for a path that does not exist is 404.
    @inline(never) func refuse(_ status: Status, _ detail: String, retryAfterSeconds: Int? = nil) {
        var fields = Fields()
        if let retryAfterSeconds { fields.append("Retry-After", String(retryAfterSeconds)) }
        let exchange =
            exchange
            ?? Exchange(
                destination: .refusal(status, detail: detail, fields: fields),
                request: Request(
                    method: .get, path: "", id: RequestID.of(http.receivedFields),
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
    @inline(never) private func send(_ response: Response, close: Bool = false) {
        guard let exchange = takeExchange() else { return }
        send(response, to: exchange, close: close, atMilliseconds: LoopClock.nowMilliseconds)
    }

    /// A refusal that were a stream would have no content.
    private func send(
        _ response: Response, to exchange: Exchange, close: Bool = false, atMilliseconds milliseconds: Int64
    ) {
        let before = output.count
        var bytes: [UInt8] = []
        if case .bytes(let content) = response.body { bytes = content }
        http.encode(
            status: response.status, fields: response.fields, body: bytes, dateText: dateText(milliseconds),
            requestID: exchange.request.id, close: close || connection.isDraining, into: &output)
        observe(exchange, response.status, output.count - before)
    }

    /// What it made the server hold is given back.
    private func takeExchange() -> Exchange? {
        defer {
            exchange = nil
            _ = holdRequest()
        }
        return exchange
    }

    private func dateText(_ milliseconds: Int64) -> String {
        serving.clocks[connection.loop.index].dateText(milliseconds)
    }

    private func observe(_ exchange: Exchange, _ status: Status, _ bytesOut: Int) {
        let bytesTaken = bytesRead - http.bufferedBytes
        let bytesIn = max(0, bytesTaken - bytesTakenBefore)
        let now = Deadline.now
        answeredAt = now
        let duration = now.nanoseconds &- exchange.startedAt.nanoseconds
        let placed = exchange.placed
        serving.metrics.answered(
            placed?.place, exchange.method, status, nanoseconds: duration, bytesIn: bytesIn, bytesOut: bytesOut)
        serving.observer.answered(
            AnsweredRequest(
                requestID: exchange.request.id, method: exchange.method, routeTemplate: placed?.route.template,
                status: status, durationNanoseconds: duration, bytesIn: bytesIn, bytesOut: bytesOut,
                remoteAddress: exchange.request.remoteAddress,
                traceParent: exchange.request.fields.first("traceparent")))
        bytesTakenBefore = bytesTaken
    }

    // MARK: - Streaming

    /// What was made before is written already.
    private nonisolated(nonsending) func stream(
        _ produce: @Sendable (any ResponseBodyWriter) async throws -> Void, _ response: Response
    ) async throws(TransportError) {
        guard let exchange = beginStream(response) else { return }
        try await flush()
        if exchange.method != .head {
            defer { connection.whenPeerEndsSending(nil) }
            do {
                try await produce(StreamedBody(served: self))
            } catch {
                // Without the last chunk the client knows that this is not all.
                serving.logger.debug("a streamed body ended early", metadata: ["error": "\(type(of: error))"])
                throw .closed
            }
        }
        endStream(exchange, response.status)
    }

    @inline(never) private func beginStream(_ response: Response) -> Exchange? {
        guard let exchange = takeExchange() else { return nil }
        http.encodeHead(
            status: response.status, fields: response.fields, dateText: dateText(LoopClock.nowMilliseconds),
            requestID: exchange.request.id, close: connection.isDraining, into: &output)
        streamedBytes = output.count
        return exchange
    }

    @inline(never) private func endStream(_ exchange: Exchange, _ status: Status) {
        let before = output.count
        http.encodeEnd(into: &output)
        observe(exchange, status, streamedBytes + output.count - before)
    }

    func writeChunk(_ bytes: [UInt8]) async throws(TransportError) {
        if !connection.loop.isCurrent {
            return try await withTaskExecutorPreference(connection.loop) { () async throws(TransportError) in
                try await writeChunk(bytes)
            }
        }
        if isWritingChunk { throw .alreadyWaiting }
        isWritingChunk = true
        defer { isWritingChunk = false }
        // False after the stream's closure returned: the writer outlived it.
        guard http.encodeChunk(bytes, into: &output) else { throw .closed }
        streamedBytes += output.count
        do throws(TransportError) {
            try await flush()
        } catch {
            // Whoever writes is told; closing tells who only waits: it cancels the task.
            connection.close()
            throw error
        }
    }
}

/// What a streaming handler is given. One write at a time.
private struct StreamedBody: ResponseBodyWriter {
    let served: ServedConnection

    func write(_ bytes: [UInt8]) async throws {
        try await served.writeChunk(bytes)
    }

    func whenClientEndsSending(_ body: @escaping @Sendable () -> Void) {
        served.connection.whenPeerEndsSending(body)
    }
}
