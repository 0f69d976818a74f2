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
    @inline(never) mutating func hold(_ bytes: Int) -> Bool {
        if bytes > heldBytes {
            guard serving.bufferBudget.take(bytes - heldBytes, for: client) else { return false }
        } else if bytes < heldBytes {
            serving.bufferBudget.give(heldBytes - bytes, for: client)
        }
        heldBytes = bytes
        return true
    }

    /// What is held is that client's part of the budget from now on; nil: nobody's. False without room for it there.
    mutating func hold(for client: String?) -> Bool {
        if client == self.client { return true }
        let bytes = heldBytes
        serving.bufferBudget.give(bytes, for: self.client)
        heldBytes = 0
        self.client = client
        return hold(bytes)
    }

    /// The same for answers that nobody has taken yet. How long to wait for each piece of them, in milliseconds: without
    /// room for this answer nobody waits for the client to take it.
    @inline(never) mutating func holdOutput() -> Int {
        let hasRoom = output.count <= HTTP1ConnectionState.uncountedBytes || hold(heldBytes + output.count)
        return hasRoom ? serving.configuration.writeStallMilliseconds : 0
    }

    /// Enough to be written before more is made.
    @inline(never) mutating func isOutputFull() -> Bool {
        output.count > serving.configuration.outputBytesMax
    }

    /// The same for what was received of the request in hand, and of the next ones.
    @discardableResult
    mutating func holdRequest() -> Bool {
        let input = http.inputCapacityBytes
        let bytes = (exchange?.request.body.capacity ?? 0) + (input > HTTP1ConnectionState.uncountedBytes ? input : 0)
        if exchange == nil, client != nil { _ = hold(for: nil) }
        return bytes == heldBytes || hold(bytes)
    }

    @inline(never) mutating func shed(_ detail: String = "The server is busy.") {
        refuse(.serviceUnavailable, detail, retryAfterSeconds: 1)
    }

    // MARK: - Writing

    /// What was made is written when this round of the loop ends. False when it has to be written now: it is much, or the
    /// peer has not taken the last of it.
    @inline(never) mutating func leavesOutputToRound() -> Bool {
        output.isEmpty || output.count <= HTTP1ConnectionState.uncountedBytes && connection.flushAtTickEnd()
    }

    /// False when the peer does not take all of it now, or nothing any more. The task meets the same failure.
    mutating func flushAtTickEnd() -> Bool {
        guard let sent = try? connection.writeAtOnce(output) else { return false }
        output.removeFirst(sent)
        giveBackOutput()
        return output.isEmpty
    }

    /// Who waits keeps little.
    mutating func giveBackOutput() {
        if output.isEmpty, output.capacity > HTTP1ConnectionState.idleOutputBytesMax { output = [] }
    }
}
