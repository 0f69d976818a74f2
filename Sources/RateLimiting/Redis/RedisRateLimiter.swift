// The port `Admission` over Redis. All processes share the windows in Redis. One script decides in one round trip
// (contract, section 4). For each window in Redis, a window in this process mirrors the charges. The window in this
// process decides whenever Redis does not.
//
// This process decides at once if there is no connection, the breaker is open, or too many calls are waiting. If a call
// has begun, it may still fail: the connection is lost, or the reply is late, an error or unexpected. This process then
// decides at that moment. If Redis has lost its data (it was restarted empty, flushed, or failed over), this process
// corrects the decisions of Redis. No errors are thrown.

package import JourneyModel
package import Logging
package import Sockets
internal import Synchronization

package final class RedisRateLimiter: Admission {
    package let limits: RateLimits
    private let timeoutMilliseconds: Int
    private let fallback: LocalRateLimiter
    private let health: RedisHealth
    /// One link per loop, at the loop's index.
    private let links: [RedisLink]
    private let turn = Atomic<Int>(0)
    private let callsMade = Atomic<Int64>(0)

    /// The time for which Redis keeps the idempotency keys of a driver's repeated events, counted from the driver's
    /// last repeat. A phone's queue retries within minutes. A longer time would have a disadvantage: if a driver is
    /// deleted while Redis is unreachable, the driver's keys stay in Redis until this time ends.
    private static let storedSeconds = 3600

    /// The maximum number of deleted drivers in `forgotten`. While Redis does not reply, `forgotten` holds the drivers
    /// whose keys must still be deleted from Redis. Keys of further drivers expire after `storedSeconds`. If this
    /// process restarts, the keys of all drivers in `forgotten` expire in the same way.
    private static let forgottenMax = 10_000
    private let forgotten = Mutex<Set<DriverID>>([])

    /// Creates the limiter without connecting. Until `run()` is called, the limiter in this process decides.
    ///
    /// - Parameters:
    ///   - timeoutMilliseconds: how long a request may wait for Redis; at least 1.
    ///   - fallback: the limiter in this process. Its limits are used for Redis too. It must not be shared with other
    ///     instances.
    package init(
        endpoint: RedisEndpoint, timeoutMilliseconds: Int = 50, fallback: LocalRateLimiter, loops: EventLoopGroup,
        logger: Logger
    ) {
        limits = fallback.limits
        self.timeoutMilliseconds = max(timeoutMilliseconds, 1)
        self.fallback = fallback
        let health = RedisHealth(logger: logger, now: LocalRateLimiter.monotonicMilliseconds)
        self.health = health
        links = loops.loops.map {
            RedisLink(on: $0, endpoint, timeoutMilliseconds: max(timeoutMilliseconds, 1), health)
        }
    }

    /// Keeps one connection per loop until the task is cancelled. Must be called once, and must end before the loops
    /// shut down.
    package func run() async {
        await withTaskGroup { group in
            for link in links { group.addTask(executorPreference: link.loop) { await link.run() } }
            group.addTask { await self.forgetAfterReconnect() }
        }
    }

    package nonisolated(nonsending) func admit(_ claim: AdmissionClaim) async -> AdmissionDecision {
        await admit([claim]).first ?? fallback.decide(claim)
    }

    package nonisolated(nonsending) func admit(_ claims: [AdmissionClaim]) async -> [AdmissionDecision] {
        let limited = claims.filter { !limits.isOff($0.limitClass) }
        let askedAt = fallback.now()
        var answers = await ask(limited)[...]
        return claims.map { claim in
            if limits.isOff(claim.limitClass) { return limits.unlimited }
            guard let answer = answers.popFirst() ?? nil else {
                health.decisionsInProcess.add(1, ordering: .relaxed)
                return fallback.decide(claim)
            }
            return settled(claim, answer.decision, askedAt: askedAt)
        }
    }

    /// Returns the quota of the window in this process, which mirrors the window in Redis. If a request is refused
    /// because of this quota, it does not wait for Redis.
    package func quota(of driver: DriverID, in limitClass: RateLimitClass) -> Quota {
        fallback.quota(of: driver, in: limitClass)
    }

    /// Records the idempotency key in this process. Records it in Redis only if the event is a repeat. The key of a new
    /// event is already in Redis as part of its charge, for the length of the window. After that time, this process or
    /// the store recognises a repeat. Recording every key in Redis would double the number of commands, although
    /// repeats are rare. But a key that was repeated once is likely to be repeated again, by the queue of a phone that
    /// does not receive the responses.
    package func recordStored(_ claim: AdmissionClaim, isRepeat: Bool) {
        if limits.isOff(claim.limitClass) { return }
        fallback.recordStored(claim)
        guard isRepeat else { return }
        post(AdmissionScript.recordStored(claim, forSeconds: Self.storedSeconds))
    }

    package func forceCharge(_ claim: AdmissionClaim) {
        if limits.isOff(claim.limitClass) { return }
        fallback.forceCharge(claim)
        post(AdmissionScript.forceCharge(claim, limits))
    }

    package func charge(_ claim: AdmissionClaim, times: Int) {
        if limits.isOff(claim.limitClass) { return }
        fallback.charge(claim, times: times)
        post(AdmissionScript.charge(claim, times: times, limits))
    }

    /// Returns whether the window in this process has more charges than its limit. This window mirrors every charge in
    /// Redis.
    package func isOverdrawn(by driver: DriverID, in limitClass: RateLimitClass) -> Bool {
        fallback.isOverdrawn(by: driver, in: limitClass)
    }

    package func refund(_ claim: AdmissionClaim) {
        if limits.isOff(claim.limitClass) { return }
        fallback.refund(claim)
        post(RedisCommands("ZREM", RedisKeys.window(of: claim), claim.idempotencyKey))
    }

    /// Deletes every key in Redis that contains the driver's id. Waits for Redis at most `timeoutMilliseconds`. If
    /// Redis does not reply, `run()` retries once a second.
    package func forget(_ driver: DriverID) async {
        forgotten.withLock { if $0.count < Self.forgottenMax { _ = $0.insert(driver) } }
        await forgetNow(driver)
    }

    private func forgetAfterReconnect() async {
        while !Task.isCancelled {
            try? await Task.sleep(for: .seconds(1))
            for driver in forgotten.withLock({ $0 }) {
                guard await forgetNow(driver) else { break }
            }
        }
    }

    /// Deletes the driver's keys now. Returns false if Redis did not reply.
    @discardableResult
    private func forgetNow(_ driver: DriverID) async -> Bool {
        guard health.permitsRequests, let serving = serving() else { return false }
        var commands = RedisCommands()
        commands.append(["DEL"] + RedisKeys.all(of: driver))
        let replies = await serving.pipeline.call(commands, until: .inMilliseconds(timeoutMilliseconds))
        guard case .integer(_)? = replies?.first else { return false }
        forgotten.withLock { _ = $0.remove(driver) }
        return true
    }

    /// Returns the keys in Redis that contain the driver's id. Used by a command that checks whether a deletion was
    /// complete.
    package static func keys(
        of driver: DriverID, at endpoint: RedisEndpoint, on loop: EventLoop
    ) async throws -> [String] {
        let connection = try await RedisConnection.open(endpoint, on: loop, timeoutMilliseconds: 1000)
        defer { connection.connection.close() }
        let keys = RedisKeys.all(of: driver)
        var commands = RedisCommands()
        for key in keys { commands.append(["EXISTS", key]) }
        let replies = try await RedisConnection.converse(connection.connection, commands, until: .inSeconds(5))
        return zip(keys, replies).filter { $0.1 != .integer(0) }.map(\.0)
    }

    /// Deletes every key in Redis that contains the driver's id. Used by a command that runs without the server.
    package static func removeKeys(
        of driver: DriverID, at endpoint: RedisEndpoint, on loop: EventLoop
    ) async throws {
        let connection = try await RedisConnection.open(endpoint, on: loop, timeoutMilliseconds: 1000)
        defer { connection.connection.close() }
        var commands = RedisCommands()
        commands.append(["DEL"] + RedisKeys.all(of: driver))
        let replies = try await RedisConnection.converse(connection.connection, commands, until: .inSeconds(5))
        guard case .integer(_)? = replies.first else { throw RedisFailure.unexpectedReply }
    }

    /// The status for `/readyz` and `/metrics`. Counts begin at the start of the process.
    package var status: RedisStatus {
        RedisStatus(
            connections: health.connections, breaker: health.state,
            decisionsByRedis: health.decisionsByRedis.load(ordering: .relaxed),
            decisionsInProcess: health.decisionsInProcess.load(ordering: .relaxed),
            decisionsCorrected: health.decisionsCorrected.load(ordering: .relaxed),
            timeouts: health.timeouts.load(ordering: .relaxed),
            errorReplies: health.errorReplies.load(ordering: .relaxed))
    }

    // MARK: - Asking

    /// Returns the answers of Redis to the claims, in the order of the claims. An element is nil if Redis replied with
    /// an error. If the connection was lost after some answers, the array contains only these first answers. If Redis
    /// gave no valid answers, the array is empty.
    private nonisolated(nonsending) func ask(_ claims: [AdmissionClaim]) async -> [AdmissionScript.Answer?] {
        guard !claims.isEmpty, health.permitsRequests, let serving = serving() else { return [] }
        let deadline = Deadline.inMilliseconds(timeoutMilliseconds)
        let first = callsMade.wrappingAdd(Int64(claims.count), ordering: .relaxed).oldValue
        let calls = Calls(claims: claims, first: first)
        let commands = commands(calls, claims.indices, digest: serving.scriptDigest)
        guard var replies = await serving.pipeline.call(commands, until: deadline) else { return [] }
        if replies.contains(where: \.isScriptMissing) {
            await repeatWithScript(calls, serving, &replies, until: deadline)
        }
        // If the client disconnected during the call, the replies do not show whether Redis works.
        if Task.isCancelled { return [] }

        let answers = replies.indices.map { index in
            AdmissionScript.answer(replies[index], to: calls.number(index), claims[index].limitClass, limits)
        }
        if let text = replies.lazy.compactMap(\.errorText).first {
            health.recordFailure(RedisFailure(errorText: text))
        } else if answers.contains(nil) {
            // The script never returns such a reply, so the replies may belong to other calls. Ending the pipeline
            // closes the connection.
            serving.pipeline.end()
            health.recordFailure(.unexpectedReply)
            return []
        } else if answers.count == claims.count {
            health.recordSuccess()
        }
        return answers
    }

    /// Claims that are decided together. Their calls of the script have consecutive numbers, beginning with `first`.
    private struct Calls {
        var claims: [AdmissionClaim]
        var first: Int64

        func number(_ index: Int) -> Int64 { first + Int64(index) }
    }

    /// Repeats the calls that failed because Redis did not have the script, and sends the script with them. Redis loses
    /// the script when its scripts are flushed. Behind a proxy, a restart of Redis can go unnoticed and has the same
    /// effect.
    private nonisolated(nonsending) func repeatWithScript(
        _ calls: Calls, _ serving: RedisLink.Serving, _ replies: inout [RedisReply], until deadline: Deadline
    ) async {
        let missing = replies.indices.filter { replies[$0].isScriptMissing }
        // The first command contains the script's source. Redis keeps the script, so the other commands need only its
        // digest.
        var again = commands(calls, missing.prefix(1), digest: nil)
        again.append(commands(calls, missing.dropFirst(), digest: serving.scriptDigest))
        guard let repeated = await serving.pipeline.call(again, until: deadline) else { return }
        for (index, reply) in zip(missing, repeated) { replies[index] = reply }
    }

    /// - Parameter digest: the digest of the script that Redis has; nil to send the script's source.
    private func commands(_ calls: Calls, _ indexes: some Sequence<Int>, digest: String?) -> RedisCommands {
        var commands = RedisCommands()
        for index in indexes {
            commands.begin(2 + AdmissionScript.argumentCount)
            commands.add(digest == nil ? "EVAL" : "EVALSHA")
            commands.add(digest ?? AdmissionScript.source)
            AdmissionScript.addArguments(
                for: calls.claims[index], number: calls.number(index), limits: limits, to: &commands)
        }
        return commands
    }

    /// Returns the decision of Redis after reconciling it with the window in this process.
    private func settled(
        _ claim: AdmissionClaim, _ decision: AdmissionDecision, askedAt: Int64
    ) -> AdmissionDecision {
        health.decisionsByRedis.add(1, ordering: .relaxed)
        let counted = fallback.reconcile(claim, with: decision, askedAt: askedAt)
        if counted.decision.verdict != decision.verdict { health.decisionsCorrected.add(1, ordering: .relaxed) }
        if decision.verdict == .admitted && !counted.keepsCharge {
            post(RedisCommands("ZREM", RedisKeys.window(of: claim), claim.idempotencyKey))
        }
        return counted.decision
    }

    /// Sends commands without waiting. Drops the commands if there is no connection or too many commands are waiting.
    /// Dropping them does no harm, because they are only an optimisation, and Redis is not the source of truth.
    private func post(_ commands: RedisCommands) {
        guard health.permitsRequests, let serving = serving() else { return }
        serving.pipeline.post(commands, until: .inMilliseconds(timeoutMilliseconds))
    }

    /// Returns the connection of the current loop if it works, otherwise any working connection.
    private func serving() -> RedisLink.Serving? {
        if let loop = EventLoop.current, links.indices.contains(loop.index), links[loop.index].loop === loop,
            let serving = links[loop.index].serving
        {
            return serving
        }
        let start = UInt(bitPattern: turn.wrappingAdd(1, ordering: .relaxed).oldValue)
        for offset in links.indices {
            let index = Int((start &+ UInt(offset)) % UInt(links.count))
            if let serving = links[index].serving { return serving }
        }
        return nil
    }
}

extension RedisReply {
    fileprivate var isScriptMissing: Bool { errorText?.hasPrefix("NOSCRIPT") == true }
}

/// The state of the process's Redis connections.
package struct RedisStatus: Hashable, Sendable {
    /// Connections that passed their probe; at most one per loop.
    package var connections: Int
    package var breaker: CircuitBreaker.State
    package var decisionsByRedis: Int
    /// Decisions that the limiter in this process made, because Redis was not called or did not reply properly.
    package var decisionsInProcess: Int
    /// The decisions by Redis that this process corrected.
    package var decisionsCorrected: Int
    /// Connections that were closed, or could not be opened, because Redis did not reply in time.
    package var timeouts: Int
    package var errorReplies: Int

    package var isConnected: Bool { connections > 0 }
}
