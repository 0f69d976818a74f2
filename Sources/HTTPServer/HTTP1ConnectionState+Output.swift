// Writes the output, and decides when to write. Also counts the connection's input and output in the BufferBudget.

internal import HTTP1
internal import Sockets

extension HTTP1ConnectionState {
    /// A connection that waits for a request frees an empty output buffer that is larger than this. 10 000 such
    /// connections therefore keep at most 40 MiB.
    private static let idleOutputBytesMax = 4 << 10
    /// The output buffer is counted in the budget only if it is larger than this. The same applies to the input buffer
    /// together with the request's fields. Most requests need less.
    private static let uncountedBytes = 8 << 10

    // MARK: - The budget

    /// Sets the number of bytes that the budget counts for the requests of this connection. Returns false and changes
    /// nothing if they do not fit into the budget.
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

    /// If the held bytes are in no client's share yet, counts them towards the share of the client's address. Returns
    /// false if the bytes do not fit into that share.
    ///
    /// Called only when the connection must wait for the rest of a request.
    mutating func holdForAddress() -> Bool {
        if heldBytes == 0 || client != nil { return true }
        let address = exchange?.request.remoteAddress ?? connection.remoteAddress
        return hold(for: BufferBudget.client(atAddress: address))
    }

    /// Reserves memory in the budget for the unread output. Must be called again whenever the peer reads output and
    /// whenever output is added.
    ///
    /// Returns how many milliseconds the connection may wait for the peer. Returns 0 if the output does not fit into
    /// the budget.
    mutating func holdOutput() -> Int {
        if output.count > HTTP1ConnectionState.uncountedBytes {
            unsentOutput = context.bufferBudget.takeOutput(output.count, insteadOf: unsentOutput) { [connection] in
                connection.close()
            }
            if unsentOutput == nil { return 0 }
        }
        return context.configuration.writeStallMilliseconds
    }

    /// Returns the output's bytes to the budget. Called when the peer has taken all of the stalled output. From now on,
    /// the idle timeout is no longer counted from the last response, but from the beginning of the wait.
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

    /// Updates the number of bytes that the budget counts for the current request and the pipelined requests after it.
    /// Returns false if the bytes do not fit.
    ///
    /// The parsed fields are counted too. Fields that arrive in small pieces take memory although the input buffer
    /// stays small.
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

    /// Schedules a write at the end of this round of the loop if possible, otherwise writes now. Returns false if the
    /// socket did not accept all of the output.
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

    mutating func shrinkOutput() {
        if output.isEmpty, output.capacity > HTTP1ConnectionState.idleOutputBytesMax { output = [] }
    }
}
