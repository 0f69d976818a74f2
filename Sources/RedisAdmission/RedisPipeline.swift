// The calls of one connection, in the order in which they are written and their replies come. It knows neither
// what the bytes mean nor sockets: callers put commands in, a writer takes bytes out, a reader puts replies in.
//
// One connection, one pipeline: when the connection ends, so does this, and a reply that comes late finds nobody.

internal import Sockets
internal import Synchronization

final class RedisPipeline: Sendable {
    private typealias Caller = UnsafeContinuation<[RedisReply]?, Never>

    private struct Call {
        var deadline: Deadline
        var expected: Int
        var replies: [RedisReply] = []
        /// nil when nobody waits for the replies.
        var caller: Caller?
        /// Of the caller; 0 for none.
        var number: UInt64
        /// The caller was cancelled. Its deadline stays: whether Redis answers in time is worth knowing all the same.
        var isAbandoned = false
    }

    private struct State {
        /// Those before `first` are answered.
        var calls: [Call] = []
        var first = 0
        var commandsWaiting = 0
        var unsent: [UInt8] = []
        var writer: UnsafeContinuation<Void, Never>?
        var hasEnded = false
    }

    /// What became of a handful of replies.
    struct Delivery: Sendable {
        /// Replies that nobody asked for: the stream is out of step.
        var unasked = 0
        /// The first error reply to a call that nobody waits for.
        var error: String?
    }

    /// Commands without a reply yet; a call beyond that is not taken. A batch of events is 500 commands.
    static let commandsWaitingMax = 4096

    private let state = Mutex(State())
    private let lastNumber = Atomic<UInt64>(0)

    // MARK: - Callers

    /// Puts the commands in and waits for their replies: as many as there are commands, or the first ones when the
    /// connection ended meanwhile. nil when nothing was sent: too many wait already, or the connection has ended; and
    /// as soon as the task is cancelled, whatever was sent by then.
    nonisolated(nonsending) func call(
        _ commands: RedisCommands, until deadline: Deadline
    ) async -> [RedisReply]? {
        if commands.count == 0 { return [] }
        let number = lastNumber.wrappingAdd(1, ordering: .relaxed).newValue
        return await withTaskCancellationHandler {
            await withUnsafeContinuation { caller in
                if !put(commands, until: deadline, caller, number) { caller.resume(returning: nil) }
            }
        } onCancel: {
            abandon(number)
        }
    }

    private func abandon(_ number: UInt64) {
        let caller = state.withLock { state -> Caller? in
            let waiting = state.calls[state.first...]
            guard let place = waiting.lastIndex(where: { $0.number == number }) else { return nil }
            state.calls[place].isAbandoned = true
            return state.calls[place].caller.take()
        }
        caller?.resume(returning: nil)
    }

    /// Puts the commands in; false when they were not taken.
    @discardableResult
    func post(_ commands: RedisCommands, until deadline: Deadline) -> Bool {
        commands.count == 0 || put(commands, until: deadline, nil, 0)
    }

    private func put(
        _ commands: RedisCommands, until deadline: Deadline, _ caller: Caller?, _ number: UInt64
    ) -> Bool {
        let (taken, writer) = state.withLock { state -> (Bool, UnsafeContinuation<Void, Never>?) in
            guard !state.hasEnded, state.commandsWaiting + commands.count <= Self.commandsWaitingMax else {
                return (false, nil)
            }
            // Looked at under the lock: a cancellation after this finds the call, one before it is seen here.
            if caller != nil && Task.isCancelled { return (false, nil) }
            state.calls.append(Call(deadline: deadline, expected: commands.count, caller: caller, number: number))
            state.commandsWaiting += commands.count
            if state.unsent.isEmpty { state.unsent = commands.bytes } else { state.unsent += commands.bytes }
            return (true, state.writer.take())
        }
        // The writer takes the bytes when its turn comes, with all that is put in until then.
        writer?.resume()
        return taken
    }

    // MARK: - The connection

    /// All that is to be written, once there is something; nil after the end. For one task at a time.
    func nextBytes() async -> [UInt8]? {
        while true {
            let (bytes, hasEnded) = state.withLock { state in
                defer { state.unsent = [] }
                return (state.unsent, state.hasEnded)
            }
            if hasEnded { return nil }
            if !bytes.isEmpty { return bytes }
            await withUnsafeContinuation { writer in
                let mustWait = state.withLock { state in
                    guard state.unsent.isEmpty, !state.hasEnded else { return false }
                    state.writer = writer
                    return true
                }
                if !mustWait { writer.resume() }
            }
        }
    }

    /// When the call that has waited longest gives up; nil when none waits.
    var firstDeadline: Deadline? {
        state.withLock { $0.first < $0.calls.count ? $0.calls[$0.first].deadline : nil }
    }

    /// Hands the replies to the calls that have waited longest.
    func deliver(_ replies: [RedisReply]) -> Delivery {
        var delivery = Delivery()
        let answered = state.withLock { state -> [Call] in
            var answered: [Call] = []
            if state.hasEnded { return answered }
            for reply in replies {
                guard state.first < state.calls.count else {
                    delivery.unasked += 1
                    continue
                }
                state.commandsWaiting -= 1
                state.calls[state.first].replies.append(reply)
                if state.calls[state.first].replies.count == state.calls[state.first].expected {
                    answered.append(state.calls[state.first])
                    state.first += 1
                }
            }
            Self.compact(&state)
            return answered
        }
        for call in answered {
            if let caller = call.caller {
                caller.resume(returning: call.replies)
            } else if delivery.error == nil, !call.isAbandoned {
                delivery.error = call.replies.lazy.compactMap(\.errorText).first
            }
        }
        return delivery
    }

    /// The connection is of no use any more: every call gets what it has. Answers whether any was waiting. A second
    /// call does nothing.
    @discardableResult
    func end() -> Bool {
        let (calls, writer) = state.withLock { state in
            defer {
                state.hasEnded = true
                state.calls = []
                state.first = 0
                state.unsent = []
            }
            return (state.calls[state.first...], state.writer.take())
        }
        writer?.resume()
        for call in calls { call.caller?.resume(returning: call.replies) }
        return !calls.isEmpty
    }

    /// Frees what is answered once it is half of the array, so that each call is moved at most once on average.
    private static func compact(_ state: inout State) {
        if state.first == state.calls.count {
            state.calls.removeAll(keepingCapacity: true)
            state.first = 0
        } else if state.first >= 64, state.first * 2 >= state.calls.count {
            state.calls.removeFirst(state.first)
            state.first = 0
        }
    }
}

extension RedisReply {
    var errorText: String? {
        if case .error(let text) = self { text } else { nil }
    }
}
