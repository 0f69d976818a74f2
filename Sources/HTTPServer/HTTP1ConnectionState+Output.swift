// Writes the output, and decides when to write it. Also counts the connection's input and output in the BufferBudget.

internal import HTTP1
internal import Sockets

extension HTTP1ConnectionState {
    /// The maximum capacity of the output buffer of a connection that waits for a request: 40 MiB in total for 10 000
    /// connections.
    private static let idleOutputBytesMax = 4 << 10
    /// The size up to which an input or output buffer is not counted in the budget. Most requests need less.
    private static let uncountedBytes = 8 << 10

    // MARK: - The budget

    /// Sets the bytes counted in the budget for this connection. Returns false and changes nothing if they do not fit.
    mutating func hold(_ bytes: Int) -> Bool {
        if bytes > heldBytes {
            guard context.bufferBudget.take(bytes - heldBytes, for: client) else { return false }
        } else if bytes < heldBytes {
            context.bufferBudget.give(heldBytes - bytes, for: client)
        }
        heldBytes = bytes
        return true
    }

    /// Counts the held bytes towards the share of `client` from now on, or towards no share if `client` is nil. Returns
    /// false if that share has no room for them; the budget then counts no bytes for this connection.
    mutating func hold(for client: String?) -> Bool {
        if client == self.client { return true }
        let bytes = heldBytes
        context.bufferBudget.give(bytes, for: self.client)
        heldBytes = 0
        self.client = client
        return hold(bytes)
    }

    /// Counts the output that the peer has not taken. Returns how many milliseconds to wait until the peer takes more:
    /// 0 if the budget has no room for the output.
    mutating func holdOutput() -> Int {
        let bytes = output.count > HTTP1ConnectionState.uncountedBytes ? output.count : 0
        if bytes > heldOutputBytes {
            guard hold(heldBytes + bytes - heldOutputBytes) else { return 0 }
            heldOutputBytes = bytes
        }
        return context.configuration.writeStallMilliseconds
    }

    /// Records that the peer has taken all of a stalled output. The idle timeout then starts now instead of at the time
    /// of the last response.
    mutating func outputIsTaken() {
        _ = hold(max(0, heldBytes - heldOutputBytes))
        heldOutputBytes = 0
        respondedAt = nil
    }

    /// Discards the output of a closed connection.
    mutating func dropOutput() {
        output = []
        sentBytes = 0
        outputIsTaken()
    }

    /// Returns all bytes to the budget. Called when the connection is closed and no task runs for it.
    mutating func releaseBuffers() {
        dropOutput()
        exchange = nil
        _ = hold(0)
        client = nil
    }

    /// Returns whether the output has to be written before more is produced.
    mutating func isOutputFull() -> Bool {
        output.count > context.configuration.outputBytesMax
    }

    /// Counts the received bytes of the current request and of the pipelined requests after it. Returns false if they
    /// do not fit into the budget.
    @discardableResult
    mutating func holdRequest() -> Bool {
        let input = http.inputCapacityBytes
        let bytes =
            (exchange?.request.body.capacity ?? 0) + (input > HTTP1ConnectionState.uncountedBytes ? input : 0)
            + heldOutputBytes
        if exchange == nil, client != nil { _ = hold(for: nil) }
        return bytes == heldBytes || hold(bytes)
    }

    mutating func shed(_ detail: String = "The server is busy.") {
        refuse(.serviceUnavailable, detail, retryAfterSeconds: 1)
    }

    // MARK: - Writing

    /// Requests that the output is written at the end of this round of the loop. Returns false if the output has to be
    /// written now, because it is large or because the peer has not taken earlier output.
    mutating func deferWriteToTickEnd() -> Bool {
        output.isEmpty || output.count <= HTTP1ConnectionState.uncountedBytes && connection.flushAtTickEnd()
    }

    /// Writes the output now, or requests that it is written at the end of this round. Returns false if it was written
    /// now and the peer has not taken all of it.
    mutating func flush() throws(TransportError) -> Bool {
        if deferWriteToTickEnd() { return true }
        return try write()
    }

    /// Sends as much as the peer takes now. Returns true if the peer has taken all of the output.
    mutating func write() throws(TransportError) -> Bool {
        if output.isEmpty { return true }
        sentBytes = try connection.send(output, from: sentBytes)
        if sentBytes < output.count { return false }
        output.removeAll(keepingCapacity: true)
        sentBytes = 0
        return true
    }

    /// Frees a large output buffer if it is empty: a waiting connection keeps only a small one.
    mutating func shrinkOutput() {
        if output.isEmpty, output.capacity > HTTP1ConnectionState.idleOutputBytesMax { output = [] }
    }
}
