// Writes the output, and decides when to write. Also counts the connection's input and output in the BufferBudget.

internal import HTTP1
internal import Sockets

extension HTTP1ConnectionState {
    /// The maximum capacity of the output buffer of a connection that waits for a request. For 10 000 connections, this
    /// is 40 MiB in total.
    private static let idleOutputBytesMax = 4 << 10
    /// Memory up to this size is not counted in the budget, because most requests need no more. The size applies to the
    /// output buffer, and to the sum of the input buffer and the request's fields.
    private static let uncountedBytes = 8 << 10

    // MARK: - The budget

    /// Sets the number of bytes that the budget counts for the requests of this connection. Returns false and changes
    /// nothing if these bytes do not fit into the budget.
    mutating func hold(_ bytes: Int) -> Bool {
        if bytes > heldBytes {
            guard context.bufferBudget.take(bytes - heldBytes, for: client) else { return false }
        } else if bytes < heldBytes {
            context.bufferBudget.give(heldBytes - bytes, for: client)
        }
        heldBytes = bytes
        return true
    }

    /// Moves the held bytes from the share of the previous client to the share of `client`. If `client` is nil, the
    /// bytes count only towards the total. Returns false and moves nothing if the bytes do not fit into the share.
    mutating func hold(for client: String?) -> Bool {
        if client == self.client { return true }
        guard context.bufferBudget.move(heldBytes, from: self.client, to: client) else { return false }
        self.client = client
        return true
    }

    /// If the held bytes do not count towards the share of a client yet, counts them towards the share of the client's
    /// address. Returns false if the bytes do not fit into that share.
    ///
    /// Called only when the connection has to wait for the rest of a request. A request that arrives in one piece does
    /// not need this call.
    mutating func holdForAddress() -> Bool {
        if heldBytes == 0 || client != nil { return true }
        let address = exchange?.request.remoteAddress ?? connection.remoteAddress
        return hold(for: BufferBudget.client(atAddress: address))
    }

    /// Reserves memory in the budget for output that the peer has not read yet. Must be called again when the peer has
    /// read a part of the output, and when more output is added.
    ///
    /// Returns how many milliseconds the connection may wait for the peer to read the rest. Returns 0 if the output
    /// does not fit into the budget.
    mutating func holdOutput() -> Int {
        if output.count > HTTP1ConnectionState.uncountedBytes {
            unsentOutput = context.bufferBudget.takeOutput(output.count, insteadOf: unsentOutput) { [connection] in
                connection.close()
            }
            if unsentOutput == nil { return 0 }
        }
        return context.configuration.writeStallMilliseconds
    }

    /// Records that the peer has taken all of the stalled output. The idle timeout is then counted from the current
    /// time instead of the time of the last response.
    mutating func outputIsTaken() {
        if let number = unsentOutput.take() { context.bufferBudget.giveOutput(number) }
        respondedAt = nil
    }

    /// Discards the output of a closed connection.
    mutating func dropOutput() {
        output = []
        sentBytes = 0
        outputIsTaken()
    }

    /// Returns all bytes of this connection to the budget. Called when the connection is closed and none of its tasks
    /// is running.
    mutating func releaseBuffers() {
        dropOutput()
        exchange = nil
        _ = hold(0)
        client = nil
    }

    /// Returns whether the output must be written before further responses are produced.
    mutating func isOutputFull() -> Bool {
        output.count > context.configuration.outputBytesMax
    }

    /// Counts in the budget the received bytes of the current request and of the pipelined requests after it. Returns
    /// false if these bytes do not fit.
    ///
    /// The bytes include the fields that were read. If the fields arrive in small pieces, the input buffer stays small,
    /// but the fields still take memory.
    @discardableResult
    mutating func holdRequest() -> Bool {
        let head = http.inputCapacityBytes + http.fieldsCapacityBytes
        let bytes =
            (exchange?.request.body.capacity ?? 0) + (head > HTTP1ConnectionState.uncountedBytes ? head : 0)
        if exchange == nil, client != nil { _ = hold(for: nil) }
        return bytes == heldBytes || hold(bytes)
    }

    mutating func shed(_ detail: String = "The server is busy.") {
        refuse(.serviceUnavailable, detail, retryAfterSeconds: 1)
    }

    // MARK: - Writing

    /// Schedules a write of the output at the end of this round of the loop. Returns false if the output must be
    /// written now, because it is large or because the peer has not taken earlier output.
    mutating func deferWriteToRoundEnd() -> Bool {
        output.isEmpty || output.count <= HTTP1ConnectionState.uncountedBytes && connection.flushAtRoundEnd()
    }

    /// Writes the output now, or schedules a write at the end of this round. Returns false only if the output was
    /// written now and the socket did not accept all of it.
    mutating func flush() throws(TransportError) -> Bool {
        if deferWriteToRoundEnd() { return true }
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

    /// Frees a large output buffer if it is empty, because a connection that waits for a request keeps only a small
    /// buffer.
    mutating func shrinkOutput() {
        if output.isEmpty, output.capacity > HTTP1ConnectionState.idleOutputBytesMax { output = [] }
    }
}
