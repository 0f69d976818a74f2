// The port `Admission` over Redis: windows shared by all processes, decided by one script in one round trip
// (contract, section 4). The process's own window mirrors the counts, and decides whenever Redis does not.
//
// On failure: no connection, breaker open, too many calls waiting - the process decides at once. No reply in time,
// connection lost, error reply, unexpected reply - the process decides then. A Redis that has lost its data
// (restarted empty, flushed, failed over) - the process corrects it. Nothing is ever thrown.

package import JourneyModel
package import Logging
package import Sockets
internal import Synchronization

package final class RedisRateLimiter: Admission {
    package let limits: RateLimits
    private let timeoutMilliseconds: Int
    private let fallback: LocalRateLimiter
    private let health: RedisHealth
    /// One per loop, at the loop's index.
    private let links: [RedisLink]
    private let turn = Atomic<Int>(0)
    private let callsMade = Atomic<Int64>(0)

    /// How long a repeated key stays known after the last repeat of its driver: a phone's queue retries within
    /// minutes. Not longer, because the keys of a driver who is deleted while Redis is unreachable expire by this.
    private static let storedSeconds = 3600

    /// Drivers whose keys are to be deleted once Redis replies, at most this many; beyond, and after a restart, the
    /// keys expire by `storedSeconds`.
    private static let forgottenMax = 10_000
    private let forgotten = Mutex<Set<DriverID>>([])

    /// Connects only once `run()` is called; until then the process decides.
    ///
    /// - Parameters:
    ///   - timeoutMilliseconds: how long a request may wait for Redis; at least 1.
    ///   - fallback: the window of this process, for the same limits; used exclusively by this instance.
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

    /// Keeps one connection per loop until the task is cancelled; ends before the loops shut down. Call it once.
    package func run() async {
        await withTaskGroup { group in
            for link in links { group.addTask(executorPreference: link.loop) { await link.run() } }
            group.addTask { await self.forgetWhenRedisAnswers() }
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

    /// Uses the window of the process, which mirrors the counts: a request does not wait on Redis only to be
    /// refused.
    package func quota(of driver: DriverID, in limitClass: RateLimitClass) -> Quota {
        fallback.quota(of: driver, in: limitClass)
    }

    /// A new event's key is in Redis already, with the charge, for as long as the window; after that this process
    /// knows it, and if it has forgotten, the store does. Recording each in Redis would double its commands for a
    /// repeat that rarely comes. A key that was repeated is likely to be repeated again, by the queue of a phone
    /// that does not receive the responses.
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

    /// By the window of this process, which mirrors every charge.
    package func isOverdrawn(by driver: DriverID, in limitClass: RateLimitClass) -> Bool {
        fallback.isOverdrawn(by: driver, in: limitClass)
    }

    package func refund(_ claim: AdmissionClaim) {
        if limits.isOff(claim.limitClass) { return }
        fallback.refund(claim)
        post(RedisCommands("ZREM", RedisKeys.window(of: claim), claim.idempotencyKey))
    }

    /// Deletes every key that names the driver. Waits for Redis no longer than a request does; without a reply it
    /// retries once a second.
    package func forget(_ driver: DriverID) async {
        forgotten.withLock { if $0.count < Self.forgottenMax { _ = $0.insert(driver) } }
        await forgetNow(driver)
    }

    private func forgetWhenRedisAnswers() async {
        while !Task.isCancelled {
            try? await Task.sleep(for: .seconds(1))
            for driver in forgotten.withLock({ $0 }) {
                guard await forgetNow(driver) else { break }
            }
        }
    }

    /// False when Redis did not reply.
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

    /// The driver's keys that are in Redis now, for a command that looks for remains of a deletion.
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

    /// Deletes every key that names the driver, for a command without a running server.
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

    /// For `/readyz` and `/metrics`; counts since the start.
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

    /// One answer per claim; nil, or missing at the end, where Redis gave none.
    private nonisolated(nonsending) func ask(_ claims: [AdmissionClaim]) async -> [AdmissionScript.Answer?] {
        guard !claims.isEmpty, health.permitsRequests, let serving = serving() else { return [] }
        let deadline = Deadline.inMilliseconds(timeoutMilliseconds)
        let first = callsMade.wrappingAdd(Int64(claims.count), ordering: .relaxed).oldValue
        let calls = Calls(claims: claims, first: first)
        let commands = commands(calls, claims.indices, digest: serving.scriptDigest)
        guard var replies = await serving.pipeline.call(commands, until: deadline) else { return [] }
        if replies.contains(where: \.isForWantOfTheScript) {
            await repeatWithScript(calls, serving, &replies, until: deadline)
        }
        // Cut short by a client that disconnected: says nothing about Redis.
        if Task.isCancelled { return [] }

        let answers = replies.indices.map { place in
            AdmissionScript.answer(replies[place], to: calls.number(place), claims[place].limitClass, limits)
        }
        if let text = replies.lazy.compactMap(\.errorText).first {
            health.recordFailure(RedisFailure(errorText: text))
        } else if answers.contains(nil) {
            // Not a reply of the script, so replies and calls may be out of step: this connection is closed.
            serving.pipeline.end()
            health.recordFailure(.unexpectedReply)
            return []
        } else if answers.count == claims.count {
            health.recordSuccess()
        }
        return answers
    }

    /// Claims decided together; their calls are numbered consecutively.
    private struct Calls {
        var claims: [AdmissionClaim]
        var first: Int64

        func number(_ place: Int) -> Int64 { first + Int64(place) }
    }

    /// The script was flushed, or Redis restarted behind a proxy: repeats the calls where it was missing, with the
    /// script.
    private nonisolated(nonsending) func repeatWithScript(
        _ calls: Calls, _ serving: RedisLink.Serving, _ replies: inout [RedisReply], until deadline: Deadline
    ) async {
        let missing = replies.indices.filter { replies[$0].isForWantOfTheScript }
        // The first command carries the script; Redis keeps it for the others.
        var again = commands(calls, missing.prefix(1), digest: nil)
        again.append(commands(calls, missing.dropFirst(), digest: serving.scriptDigest))
        guard let repeated = await serving.pipeline.call(again, until: deadline) else { return }
        for (place, reply) in zip(missing, repeated) { replies[place] = reply }
    }

    /// - Parameter digest: of the script that Redis has; nil sends the script's source.
    private func commands(_ calls: Calls, _ places: some Sequence<Int>, digest: String?) -> RedisCommands {
        var commands = RedisCommands()
        for place in places {
            commands.begin(2 + AdmissionScript.argumentCount)
            commands.add(digest == nil ? "EVAL" : "EVALSHA")
            commands.add(digest ?? AdmissionScript.source)
            AdmissionScript.addArguments(
                for: calls.claims[place], number: calls.number(place), limits: limits, to: &commands)
        }
        return commands
    }

    /// The decision after reconciling it with this process's window.
    private func settled(
        _ claim: AdmissionClaim, _ decision: AdmissionDecision, askedAt: Int64
    ) -> AdmissionDecision {
        health.decisionsByRedis.add(1, ordering: .relaxed)
        let counted = fallback.reconcile(claim, with: decision, askedAt: askedAt)
        if counted.decision.verdict != decision.verdict { health.decisionsCorrected.add(1, ordering: .relaxed) }
        if decision.verdict == .admitted && !counted.chargeStands {
            post(RedisCommands("ZREM", RedisKeys.window(of: claim), claim.idempotencyKey))
        }
        return counted.decision
    }

    /// Does not wait; the commands are dropped when there is no connection or too many are waiting: they are an
    /// optimisation, not a source of truth.
    private func post(_ commands: RedisCommands) {
        guard health.permitsRequests, let serving = serving() else { return }
        serving.pipeline.post(commands, until: .inMilliseconds(timeoutMilliseconds))
    }

    /// The connection of the current loop, otherwise any that works.
    private func serving() -> RedisLink.Serving? {
        if let loop = EventLoop.current, links.indices.contains(loop.index), links[loop.index].loop === loop,
            let serving = links[loop.index].serving
        {
            return serving
        }
        let start = UInt(bitPattern: turn.wrappingAdd(1, ordering: .relaxed).oldValue)
        for offset in links.indices {
            let place = Int((start &+ UInt(offset)) % UInt(links.count))
            if let serving = links[place].serving { return serving }
        }
        return nil
    }
}

extension RedisReply {
    fileprivate var isForWantOfTheScript: Bool { errorText?.hasPrefix("NOSCRIPT") == true }
}

/// The state of the process's Redis connections.
package struct RedisStatus: Hashable, Sendable {
    /// Connections that passed their probe; at most one per loop.
    package var connections: Int
    package var breaker: CircuitBreaker.State
    package var decisionsByRedis: Int
    /// Redis was not called, or did not reply properly.
    package var decisionsInProcess: Int
    /// Of the decisions by Redis, those that this process corrected.
    package var decisionsCorrected: Int
    /// Connections closed because a call or a probe got no reply in time.
    package var timeouts: Int
    package var errorReplies: Int

    package var isConnected: Bool { connections > 0 }
}
