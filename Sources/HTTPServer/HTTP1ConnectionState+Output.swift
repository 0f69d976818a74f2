// What a dialogue holds: the answers that nobody has taken yet, when they are written, and what the budget that all
// connections share is told of both sides.

internal import HTTP1
internal import Sockets

extension HTTP1ConnectionState {
    /// Kept by a connection that waits for bytes; 10 000 of them hold at most 40 MiB.
    private static let idleOutputBytesMax = 4 << 10
    /// Not counted in the budget: what an idle connection may keep of input and output, and most requests stay below.
    private static let uncountedBytes = 8 << 10

    // MARK: - The budget

    /// Has the budget count so many bytes for this connection. False, and nothing changes, without room for more.
    mutating func hold(_ bytes: Int) -> Bool {
        if bytes > heldBytes {
            guard context.bufferBudget.take(bytes - heldBytes, for: client) else { return false }
        } else if bytes < heldBytes {
            context.bufferBudget.give(heldBytes - bytes, for: client)
        }
        heldBytes = bytes
        return true
    }

    /// What is held is that client's part of the budget from now on; nil: nobody's. False without room for it there.
    mutating func hold(for client: String?) -> Bool {
        if client == self.client { return true }
        let bytes = heldBytes
        context.bufferBudget.give(bytes, for: self.client)
        heldBytes = 0
        self.client = client
        return hold(bytes)
    }

    /// Counts the output that the peer has not taken. Returns how long to wait for each piece of it, in milliseconds:
    /// not at all without room for it.
    mutating func holdOutput() -> Int {
        let bytes = output.count > HTTP1ConnectionState.uncountedBytes ? output.count : 0
        if bytes > heldOutputBytes {
            guard hold(heldBytes + bytes - heldOutputBytes) else { return 0 }
            heldOutputBytes = bytes
        }
        return context.configuration.writeStallMilliseconds
    }

    /// The peer has taken all of the output after a wait. An idle wait begins now, not with the response.
    mutating func outputIsTaken() {
        _ = hold(max(0, heldBytes - heldOutputBytes))
        heldOutputBytes = 0
        respondedAt = nil
    }

    /// The connection is closed: nobody takes what was made.
    mutating func dropOutput() {
        output = []
        sentBytes = 0
        outputIsTaken()
    }

    /// The connection is closed and nothing works for it: gives everything back.
    mutating func holdNothing() {
        dropOutput()
        exchange = nil
        _ = hold(0)
        client = nil
    }

    /// Enough to be written before more is made.
    mutating func isOutputFull() -> Bool {
        output.count > context.configuration.outputBytesMax
    }

    /// The same for what was received of the request in hand, and of the next ones.
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

    /// What was made is written when this round of the loop ends. False when it has to be written now: it is much, or the
    /// peer has not taken the last of it.
    mutating func leavesOutputToRound() -> Bool {
        output.isEmpty || output.count <= HTTP1ConnectionState.uncountedBytes && connection.flushAtTickEnd()
    }

    /// Writes, or leaves it to the end of this round where that is early enough. False when the peer has not taken all.
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

    /// Who waits keeps little.
    mutating func giveBackOutput() {
        if output.isEmpty, output.capacity > HTTP1ConnectionState.idleOutputBytesMax { output = [] }
    }
}
