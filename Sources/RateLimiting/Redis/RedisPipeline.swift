// The calls of one connection, in the order in which their commands are written and their replies arrive. Callers add
// commands, a writer task takes the bytes of the commands, and a reader task delivers the replies. The pipeline uses no
// socket and does not interpret the bytes.
//
// Each connection has its own pipeline. The pipeline ends with its connection, so a late reply of an old connection
// reaches no caller.

internal import Sockets
internal import Synchronization

final class RedisPipeline: Sendable {
    private typealias Caller = UnsafeContinuation<[RedisReply]?, Never>
    typealias Completion = @Sendable ([RedisReply]) -> Void

    private struct Call {
        var deadline: Deadline
        var expected: Int
        var replies: [RedisReply] = []
        var caller: Caller?
        /// Called with the replies to commands that were posted.
        var completion: Completion?
        /// The number by which a cancellation finds the call. 0 if no caller waits.
        var number: UInt64
        /// Whether the caller was cancelled. The call's deadline still applies: if no reply arrives before it, the
        /// connection is closed, because Redis is too slow.
        var isAbandoned = false
    }

    private struct State {
        /// The calls before index `first` are complete, but not removed yet.
        var calls: [Call] = []
        var first = 0
        var commandsWaiting = 0
        var unsent: [UInt8] = []
        var writer: UnsafeContinuation<Void, Never>?
        var hasEnded = false
    }

    /// The result of delivering some replies.
    struct Delivery: Sendable {
        /// The number of replies that arrived while no call was waiting. After such a reply, replies can no longer be
        /// matched to calls.
        var unasked = 0
        /// The first error reply to commands that were posted.
        var error: String?
    }

    /// The maximum number of commands that wait for a reply. A call that would exceed this maximum is rejected. A batch
    /// of 500 events takes 500 commands.
    static let commandsWaitingMax = 4096

    private let state = Mutex(State())
    private let lastNumber = Atomic<UInt64>(0)

    // MARK: - Callers

    /// Adds the commands and waits for their replies. Returns one reply per command. If the connection ends during the
    /// wait, returns only the replies that have arrived.
    ///
    /// Returns nil without adding the commands if too many commands are waiting or the connection has ended. Also
    /// returns nil as soon as the task is cancelled, even if the commands were sent.
    nonisolated(nonsending) func call(
        _ commands: RedisCommands, until deadline: Deadline
    ) async -> [RedisReply]? {
        if commands.count == 0 { return [] }
        let number = lastNumber.wrappingAdd(1, ordering: .relaxed).newValue
        return await withTaskCancellationHandler {
            await withUnsafeContinuation { caller in
                if !put(commands, until: deadline, caller, number, nil) { caller.resume(returning: nil) }
            }
        } onCancel: {
            abandon(number)
        }
    }

    private func abandon(_ number: UInt64) {
        let caller = state.withLock { state -> Caller? in
            let waiting = state.calls[state.first...]
            guard let index = waiting.lastIndex(where: { $0.number == number }) else { return nil }
            state.calls[index].isAbandoned = true
            return state.calls[index].caller.take()
        }
        caller?.resume(returning: nil)
    }

    /// Adds the commands without waiting. Returns false if the commands were rejected.
    ///
    /// - Parameter completion: called with one reply per command, by the task that reads the replies. Must not block.
    ///   Not called if the connection ends before all replies have arrived.
    @discardableResult
    func post(_ commands: RedisCommands, until deadline: Deadline, completion: Completion? = nil) -> Bool {
        commands.count == 0 || put(commands, until: deadline, nil, 0, completion)
    }

    private func put(
        _ commands: RedisCommands, until deadline: Deadline, _ caller: Caller?, _ number: UInt64,
        _ completion: Completion?
    ) -> Bool {
        let (taken, writer) = state.withLock { state -> (Bool, UnsafeContinuation<Void, Never>?) in
            guard !state.hasEnded, state.commandsWaiting + commands.count <= Self.commandsWaitingMax else {
                return (false, nil)
            }
            // The check is made under the lock, so that no cancellation is missed. If the task is cancelled after this
            // check, its cancellation handler waits for the lock, and then finds the call in `calls`.
            if caller != nil && Task.isCancelled { return (false, nil) }
            state.calls.append(
                Call(
                    deadline: deadline, expected: commands.count, caller: caller, completion: completion,
                    number: number))
            state.commandsWaiting += commands.count
            if state.unsent.isEmpty { state.unsent = commands.bytes } else { state.unsent += commands.bytes }
            return (true, state.writer.take())
        }
        writer?.resume()
        return taken
    }

    // MARK: - The connection

    /// Waits for bytes to write and returns all of them. Returns nil after the pipeline has ended. Only one task at a
    /// time may call this method.
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

    /// The deadline of the oldest waiting call; nil when no call waits.
    var firstDeadline: Deadline? {
        state.withLock { $0.first < $0.calls.count ? $0.calls[$0.first].deadline : nil }
    }

    /// Assigns the replies to the oldest waiting calls.
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
            call.completion?(call.replies)
        }
        return delivery
    }

    /// Ends the pipeline. Every waiting call returns the replies received so far. Returns whether any call was waiting.
    /// A second call of `end()` has no effect.
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

    /// Removes the answered calls only when they are at least half of the array. On average, each call is therefore
    /// moved at most once.
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
