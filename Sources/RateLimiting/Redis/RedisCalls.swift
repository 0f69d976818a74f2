// Calls the admission script: sends the claims to a node and parses the replies. Sends the script's source if the node
// does not have the script. Follows the redirects of a cluster within the same timeout.

internal import Sockets
internal import Synchronization

struct RedisCalls: Sendable {
    private let limits: RateLimits
    private let cluster: RedisCluster
    private let timeoutMilliseconds: Int
    private let made = Counter()

    /// The maximum number of redirects of one call. A call for a slot that is moving takes two: TRYAGAIN, then ASK.
    private static let redirectsMax = 3

    private final class Counter: Sendable {
        let count = Atomic<Int64>(0)
    }

    init(_ limits: RateLimits, _ cluster: RedisCluster, timeoutMilliseconds: Int) {
        self.limits = limits
        self.cluster = cluster
        self.timeoutMilliseconds = timeoutMilliseconds
    }

    /// Claims with the numbers of their calls. The numbers are consecutive and begin with `first`.
    private struct Numbered {
        var claims: [AdmissionClaim]
        var first: Int64

        func number(_ index: Int) -> Int64 { first + Int64(index) }
    }

    /// Returns the answers of the node in the order of the claims. An answer is nil if Redis replied with an error. If
    /// the connection was lost, the answers after the loss are missing.
    ///
    /// The array is empty if the calls could not be sent or the task was cancelled. It is also empty if a reply has a
    /// form that the script never returns.
    nonisolated(nonsending) func ask(
        _ claims: [AdmissionClaim], _ node: RedisNode
    ) async -> [AdmissionScript.Answer?] {
        guard let serving = node.serving() else { return [] }
        let deadline = Deadline.inMilliseconds(timeoutMilliseconds)
        let first = made.count.wrappingAdd(Int64(claims.count), ordering: .relaxed).oldValue
        let calls = Numbered(claims: claims, first: first)
        let commands = commands(calls, claims.indices, digest: serving.scriptDigest)
        guard var replies = await serving.pipeline.call(commands, until: deadline) else { return [] }
        if replies.contains(where: \.isScriptMissing) {
            await repeatWithScript(calls, serving, &replies, until: deadline)
        }
        if node.clusterHost != nil, replies.contains(where: \.isRedirect) {
            await follow(calls, node, &replies, until: deadline)
        }
        // If the client disconnects, the call is cancelled. Missing replies then say nothing about the state of Redis.
        if Task.isCancelled { return [] }

        let answers = replies.indices.map { index in
            AdmissionScript.answer(replies[index], to: calls.number(index), claims[index].limitClass, limits)
        }
        if let error = replies.first(where: { $0.errorText != nil && !$0.isRedirect })
            ?? replies.first(where: \.isRedirect),
            let text = error.errorText
        {
            node.recordError(text, serving)
        } else if answers.contains(nil) {
            // A reply has a form that the script never returns, so the replies may belong to other calls. Ending the
            // pipeline closes the connection.
            serving.pipeline.end()
            node.health.recordFailure(.unexpectedReply)
            return []
        } else if answers.count == claims.count {
            node.health.recordSuccess()
        }
        return answers
    }

    /// Repeats the calls that failed because Redis did not have the script. Redis loses the script when its scripts are
    /// flushed or when it restarts. If Redis is behind a proxy, this connection can survive the restart.
    private nonisolated(nonsending) func repeatWithScript(
        _ calls: Numbered, _ serving: RedisLink.Serving, _ replies: inout [RedisReply], until deadline: Deadline
    ) async {
        let missing = replies.indices.filter { replies[$0].isScriptMissing }
        // Redis keeps the script of the first command, so the other commands need only its digest.
        var again = commands(calls, missing.prefix(1), digest: nil)
        again.append(commands(calls, missing.dropFirst(), digest: serving.scriptDigest))
        guard let repeated = await serving.pipeline.call(again, until: deadline) else { return }
        for (index, reply) in zip(missing, repeated) { replies[index] = reply }
    }

    /// - Parameter digest: the digest of the script that Redis has; nil to send the script's source.
    private func commands(_ calls: Numbered, _ indexes: some Sequence<Int>, digest: String?) -> RedisCommands {
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

    // MARK: - Redirects of a cluster

    private struct Route {
        var node: RedisNode
        /// Whether the command ASKING is sent first. The node then serves a slot that is still moving to it.
        var asks = false
        /// Whether the call passes only the key of the driver's window. While a slot moves, a node rejects a call with
        /// several keys unless the node has all of these keys.
        var hasOneKey = false
    }

    /// Repeats each redirected call at the node that the redirect names, and replaces the reply. TRYAGAIN names no
    /// node, so the call is repeated at the same node. If the repeated call fails, the last redirect stays in
    /// `replies`.
    private nonisolated(nonsending) func follow(
        _ calls: Numbered, _ node: RedisNode, _ replies: inout [RedisReply], until deadline: Deadline
    ) async {
        var routes = [Route](repeating: Route(node: node), count: replies.count)
        var waiting = Array(replies.indices)
        for _ in 0..<Self.redirectsMax {
            var groups: [ObjectIdentifier: [Int]] = [:]
            for index in waiting {
                guard let next = route(after: replies[index], routes[index]) else { continue }
                routes[index] = next
                groups[ObjectIdentifier(next.node), default: []].append(index)
            }
            if groups.isEmpty || deadline.hasPassed || Task.isCancelled { return }
            waiting = []
            for indexes in groups.values {
                waiting += await repeated(calls, routes, indexes, &replies, until: deadline)
            }
        }
    }

    private func route(after reply: RedisReply, _ route: Route) -> Route? {
        guard let text = reply.errorText,
            let redirect = RedisRedirect(errorText: text, askedHost: route.node.clusterHost ?? "")
        else { return nil }
        switch redirect {
        case .moved(let slot, let address?):
            return cluster.moved(slot: slot, to: address).map { Route(node: $0, hasOneKey: route.hasOneKey) }
        case .moved(_, nil):
            return nil
        case .ask(let address):
            return cluster.node(at: address).map { Route(node: $0, asks: true, hasOneKey: true) }
        case .tryAgain:
            return Route(node: route.node, asks: route.asks, hasOneKey: true)
        }
    }

    /// Repeats calls at one node. Returns those that were redirected again.
    private nonisolated(nonsending) func repeated(
        _ calls: Numbered, _ routes: [Route], _ indexes: [Int], _ replies: inout [RedisReply], until deadline: Deadline
    ) async -> [Int] {
        guard let node = indexes.first.map({ routes[$0].node }), let serving = node.serving() else { return [] }
        let commands = commands(calls, routes, indexes)
        guard let received = await serving.pipeline.call(commands, until: deadline), received.count == commands.count
        else { return [] }
        var rest = received[...]
        var redirected: [Int] = []
        for index in indexes {
            // The reply to ASKING.
            if routes[index].asks { rest.removeFirst() }
            let reply = rest.removeFirst()
            if reply.isRedirect {
                redirected.append(index)
            } else if let text = reply.errorText {
                node.recordError(text, serving)
                continue
            } else if !isAnswer(reply, to: index, of: calls) {
                serving.pipeline.end()
                node.health.recordFailure(.unexpectedReply)
                return []
            }
            replies[index] = reply
        }
        return redirected
    }

    private func isAnswer(_ reply: RedisReply, to index: Int, of calls: Numbered) -> Bool {
        AdmissionScript.answer(reply, to: calls.number(index), calls.claims[index].limitClass, limits) != nil
    }

    /// Returns the commands of redirected calls. Redirects are rare, so each command contains the script's source.
    private func commands(_ calls: Numbered, _ routes: [Route], _ indexes: [Int]) -> RedisCommands {
        var commands = RedisCommands()
        for index in indexes {
            let namesStoredKeys = !routes[index].hasOneKey
            if routes[index].asks { commands.append(["ASKING"]) }
            commands.begin(2 + AdmissionScript.argumentCount - (namesStoredKeys ? 0 : 1))
            commands.add("EVAL")
            commands.add(AdmissionScript.source)
            AdmissionScript.addArguments(
                for: calls.claims[index], number: calls.number(index), limits: limits,
                namesStoredKeys: namesStoredKeys, to: &commands)
        }
        return commands
    }
}

extension RedisReply {
    fileprivate var isScriptMissing: Bool { errorText?.hasPrefix("NOSCRIPT") == true }
}
