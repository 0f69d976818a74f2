// From a request that is complete, or refused, to the bytes of its answer.

internal import HTTP1
internal import Logging
internal import Sockets

extension ServedConnection {
    /// The request in hand, as it was decided when its head came.
    nonisolated(nonsending) func answer() async throws(TransportError) {
        guard let exchange else { return }
        switch exchange.destination {
        case .handler(let route, let parameters):
            guard let request = request(exchange, parameters) else { return }
            // It runs to its end whatever becomes of the client: what it commits must not depend on that.
            let response = await route.handler(request)
            try await send(response, exchange)
        case .options(let allow):
            try await send(Response(status: .noContent, fields: Fields([("Allow", allow)])), exchange)
        case .refusal(let status, let detail, let fields):
            try await send(rendered(status, detail, fields, exchange), exchange)
        }
    }

    /// Answers the request in hand, or the beginning of one, and ends the connection. What was decided when the head
    /// came goes first: a body that is too long for a path that does not exist is 404.
    nonisolated(nonsending) func refuse(
        _ status: Status, _ detail: String, retryAfterSeconds: Int? = nil
    ) async throws(TransportError) {
        var fields = Fields()
        if let retryAfterSeconds { fields.append("Retry-After", String(retryAfterSeconds)) }
        let exchange =
            exchange
            ?? Exchange(
                id: RequestID.make(), destination: .refusal(status, detail: detail, fields: fields), head: nil,
                remoteAddress: connection.remoteAddress, receivedAtMilliseconds: LoopClock.nowMilliseconds)
        var refusal = (status: status, detail: detail, fields: fields)
        if case .refusal(let status, let detail, let fields) = exchange.destination {
            refusal = (status, detail, fields)
        }
        let response = rendered(refusal.status, refusal.detail, refusal.fields, exchange)
        try await send(response, exchange, close: true)
    }

    private func rendered(_ status: Status, _ detail: String, _ fields: Fields, _ exchange: Exchange) -> Response {
        serving.refusals(RefusedRequest(status: status, detail: detail, requestID: exchange.id, fields: fields))
    }

    private func request(_ exchange: Exchange, _ parameters: [String: String]) -> Request? {
        guard let head = exchange.head else { return nil }
        return Request(
            method: head.method, path: head.path, query: head.query, fields: head.fields, body: exchange.body,
            id: exchange.id, receivedAtMilliseconds: exchange.receivedAtMilliseconds,
            remoteAddress: exchange.remoteAddress, parameters: parameters)
    }

    // MARK: - Sending

    private nonisolated(nonsending) func send(
        _ response: Response, _ exchange: Exchange, close: Bool = false
    ) async throws(TransportError) {
        self.exchange = nil
        _ = holdRequest()
        var fields = response.fields
        fields.set("X-Request-Id", exchange.id)
        let close = close || connection.isDraining
        let date = serving.clocks[connection.loop.index].dateText()
        let bytesOut: Int
        switch response.body {
        case .bytes(let bytes):
            let before = output.count
            http.encode(
                status: response.status, fields: fields, body: bytes, dateText: date, close: close, into: &output)
            bytesOut = output.count - before
        case .stream(let produce):
            try await flush()
            http.encodeHead(status: response.status, fields: fields, dateText: date, close: close, into: &output)
            bytesOut = try await stream(produce, isHead: exchange.head?.method == .head)
        }
        observe(exchange, response.status, bytesOut)
        if output.count > serving.configuration.outputBytesMax { try await flush() }
    }

    private func observe(_ exchange: Exchange, _ status: Status, _ bytesOut: Int) {
        let bytesTaken = bytesRead - http.bufferedBytes
        let duration = Deadline.now.nanoseconds &- exchange.startedAt.nanoseconds
        serving.observer.answered(
            AnsweredRequest(
                requestID: exchange.id, method: exchange.head?.method, routeTemplate: exchange.routeTemplate,
                status: status, durationNanoseconds: duration, bytesIn: max(0, bytesTaken - bytesTakenBefore),
                bytesOut: bytesOut, remoteAddress: exchange.remoteAddress,
                traceParent: exchange.head?.fields.first("traceparent")))
        bytesTakenBefore = bytesTaken
    }

    // MARK: - Streaming

    /// The head is in `output`. Returns the bytes of the whole answer.
    private nonisolated(nonsending) func stream(
        _ produce: @Sendable (any ResponseBodyWriter) async throws -> Void, isHead: Bool
    ) async throws(TransportError) -> Int {
        streamedBytes = output.count
        try await flush()
        if !isHead {
            do {
                try await produce(StreamedBody(served: self))
            } catch {
                // Without the last chunk the client knows that this is not all.
                serving.logger.debug("a streamed body ended early", metadata: ["error": "\(type(of: error))"])
                throw .closed
            }
        }
        let before = output.count
        http.encodeEnd(into: &output)
        return streamedBytes + output.count - before
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
        try await flush()
    }
}

/// What a streaming handler is given. One write at a time.
private struct StreamedBody: ResponseBodyWriter {
    let served: ServedConnection

    func write(_ bytes: [UInt8]) async throws {
        try await served.writeChunk(bytes)
    }
}
