// The output that the peer has not taken yet, when it is written, and what the connection counts in the BufferBudget
// for input and output.

internal import HTTP1
internal import Sockets

extension HTTP1ConnectionState {
    /// Output capacity that a waiting connection keeps; at most 40 MiB for 10 000 of them.
    private static let idleOutputBytesMax = 4 << 10
    /// Not counted in the budget: what an idle connection may keep of input and of output; most requests need less.
    private static let uncountedBytes = 8 << 10

    // MARK: - The budget

    /// Sets the bytes counted in the budget for this connection. False, without a change, when they do not fit.
    mutating func hold(_ bytes: Int) -> Bool {
        if bytes > heldBytes {
            guard context.bufferBudget.take(bytes - heldBytes, for: client) else { return false }
        } else if bytes < heldBytes {
            context.bufferBudget.give(heldBytes - bytes, for: client)
        }
        heldBytes = bytes
        return true
    }

    /// Counts the held bytes towards this client's share from now on; nil: towards no client's. False when they do not
    /// fit there.
    mutating func hold(for client: String?) -> Bool {
        if client == self.client { return true }
        let bytes = heldBytes
        context.bufferBudget.give(bytes, for: self.client)
        heldBytes = 0
        self.client = client
        return hold(bytes)
    }

    /// Counts the output that the peer has not taken. Returns how long to wait for the peer to take more, in
    /// milliseconds; 0 when the budget has no room.
    mutating func holdOutput() -> Int {
        let bytes = output.count > HTTP1ConnectionState.uncountedBytes ? output.count : 0
        if bytes > heldOutputBytes {
            guard hold(heldBytes + bytes - heldOutputBytes) else { return 0 }
            heldOutputBytes = bytes
        }
        return context.configuration.writeStallMilliseconds
    }

    /// The peer has taken all of a stalled output. The idle timeout starts now, not at the response.
    mutating func outputIsTaken() {
        _ = hold(max(0, heldBytes - heldOutputBytes))
        heldOutputBytes = 0
        respondedAt = nil
    }

    /// The connection is closed: discards the output.
    mutating func dropOutput() {
        output = []
        sentBytes = 0
        outputIsTaken()
    }

    /// The connection is closed and no task runs for it: returns everything to the budget.
    mutating func holdNothing() {
        dropOutput()
        exchange = nil
        _ = hold(0)
        client = nil
    }

    /// True when the output has to be written before more is produced.
    mutating func isOutputFull() -> Bool {
        output.count > context.configuration.outputBytesMax
    }

    /// Counts what was received of the current request and of those that follow it.
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

    /// Leaves the output to the end of this round of the loop. False when it has to be written now, because it is large
    /// or the peer has not taken earlier output.
    mutating func leavesOutputToRound() -> Bool {
        output.isEmpty || output.count <= HTTP1ConnectionState.uncountedBytes && connection.flushAtTickEnd()
    }

    /// Writes the output, or leaves it to the end of this round. False when the peer has not taken all of it.
    mutating func flush() throws(TransportError) -> Bool {
        if leavesOutputToRound() { return true }
        return try write()
    }

    /// Sends as much as the peer takes now. True when that is all.
    mutating func write() throws(TransportError) -> Bool {
        if output.isEmpty { return true }
        sentBytes = try connection.send(output, from: sentBytes)
        if sentBytes < output.count { return false }
        output.removeAll(keepingCapacity: true)
        sentBytes = 0
        return true
    }

    /// A waiting connection keeps only a small output buffer.
    mutating func giveBackOutput() {
        if output.isEmpty, output.capacity > HTTP1ConnectionState.idleOutputBytesMax { output = [] }
    }
}
