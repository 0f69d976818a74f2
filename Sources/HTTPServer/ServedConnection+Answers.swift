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
            answerWithoutHandler()
        }
        if output.count > serving.configuration.outputBytesMax { try await flush() }
    }

    /// nil when no handler is to be asked.
    @inline(never) private func handling() -> (handler: @Sendable (Request) async -> Response, Request)? {
        guard let exchange, let head = exchange.head, case .handler(let route, let parameters) = exchange.destination
        else { return nil }
        let request = Request(
            method: head.method, path: head.path, query: head.query, fields: head.fields, body: exchange.body,
            id: exchange.id, receivedAtMilliseconds: exchange.receivedAtMilliseconds,
            remoteAddress: exchange.remoteAddress, parameters: parameters)
        return (route.handler, request)
    }

    @inline(never) private func answerWithoutHandler() {
        guard let exchange else { return }
        switch exchange.destination {
        case .handler: break
        case .options(let allow): send(Response(status: .noContent, fields: Fields([("Allow", allow)])))
        case .refusal(let status, let detail, let fields): send(rendered(status, detail, fields, exchange))
        }
    }

    /// Answers the request in hand, or the beginning of one, and ends the connection. What was decided when the head
    /// came goes first: a body that is too long for a path that does not exist is 404.
    @inline(never) func refuse(_ status: Status, _ detail: String, retryAfterSeconds: Int? = nil) {
        var fields = Fields()
        if let retryAfterSeconds { fields.append("Retry-After", String(retryAfterSeconds)) }
        let exchange =
            exchange
            ?? Exchange(
                id: RequestID.of(http.receivedFields), destination: .refusal(status, detail: detail, fields: fields),
                head: nil,
                remoteAddress: connection.remoteAddress, receivedAtMilliseconds: LoopClock.nowMilliseconds)
        self.exchange = exchange
        var refusal = (status: status, detail: detail, fields: fields)
        if case .refusal(let status, let detail, let fields) = exchange.destination {
            refusal = (status, detail, fields)
        }
        send(rendered(refusal.status, refusal.detail, refusal.fields, exchange), close: true)
    }

    private func rendered(_ status: Status, _ detail: String, _ fields: Fields, _ exchange: Exchange) -> Response {
        serving.refusals(RefusedRequest(status: status, detail: detail, requestID: exchange.id, fields: fields))
    }

    // MARK: - Sending

    /// Answers the exchange in hand, which ends with it. A refusal that were a stream would have no content.
    @inline(never) private func send(_ response: Response, close: Bool = false) {
        guard let exchange = takeExchange() else { return }
        var bytes: [UInt8] = []
        if case .bytes(let content) = response.body { bytes = content }
        let before = output.count
        http.encode(
            status: response.status, fields: fields(response, exchange), body: bytes, dateText: dateText,
            close: close || connection.isDraining, into: &output)
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

    private func fields(_ response: Response, _ exchange: Exchange) -> Fields {
        var fields = response.fields
        fields.set("X-Request-Id", exchange.id)
        return fields
    }

    private var dateText: String { serving.clocks[connection.loop.index].dateText() }

    private func observe(_ exchange: Exchange, _ status: Status, _ bytesOut: Int) {
        let bytesTaken = bytesRead - http.bufferedBytes
        let bytesIn = max(0, bytesTaken - bytesTakenBefore)
        let duration = Deadline.now.nanoseconds &- exchange.startedAt.nanoseconds
        let route = exchange.route
        serving.metrics.answered(
            route?.place, exchange.head?.method, status, nanoseconds: duration, bytesIn: bytesIn, bytesOut: bytesOut)
        serving.observer.answered(
            AnsweredRequest(
                requestID: exchange.id, method: exchange.head?.method, routeTemplate: route?.template,
                status: status, durationNanoseconds: duration, bytesIn: bytesIn, bytesOut: bytesOut,
                remoteAddress: exchange.remoteAddress,
                traceParent: exchange.head?.fields.first("traceparent")))
        bytesTakenBefore = bytesTaken
    }

    // MARK: - Streaming

    /// What was made before is written already.
    private nonisolated(nonsending) func stream(
        _ produce: @Sendable (any ResponseBodyWriter) async throws -> Void, _ response: Response
    ) async throws(TransportError) {
        guard let exchange = beginStream(response) else { return }
        try await flush()
        if exchange.head?.method != .head {
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
            status: response.status, fields: fields(response, exchange), dateText: dateText,
            close: connection.isDraining, into: &output)
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
