// Opens a connection to a server: authenticates, selects the database, checks the kind of the server, and loads the
// script. Then tests whether Redis makes one decision within the timeout. After that, `serve` moves bytes between the
// socket and a pipeline.

internal import Sockets

struct RedisTarget: Sendable {
    enum Kind: Hashable, Sendable {
        /// A server that the URL names. Opening throws `.isCluster` for a node of a cluster, and `.isSentinel` for a
        /// sentinel. If the URL names several servers, opening throws `.noCluster` for a server that is neither a
        /// cluster node nor a sentinel.
        case named(isOneOfSeveral: Bool)
        /// The server that the sentinels named as the primary. Opening throws `.notPrimary` if it is a replica.
        case primary
        /// A primary of a cluster. Opening throws `.notPrimary` if the server is a replica.
        ///
        /// `probeTag` is a hash tag whose slot belongs to the server. If `probeTag` is nil, opening sends PING and does
        /// not test the script.
        case clusterNode(probeTag: String?)
    }

    var address: SocketAddress
    var kind: Kind
}

/// One connection to Redis, from connect to close. It is used only on its loop.
struct RedisConnection: Sendable {
    let stream: RedisStream
    /// The script's digest for EVALSHA, as computed by Redis.
    let scriptDigest: String

    /// The timeout in milliseconds for all steps of opening a connection that come before the test. No request waits
    /// for these steps.
    static let greetingTimeoutMilliseconds = 1000
    /// The timeout of a call in milliseconds.
    let timeoutMilliseconds: Int

    /// Connects, authenticates, and tests the connection with one run of the script. The run includes a write, so the
    /// test fails if Redis is read-only, full, or slower than the timeout of a call.
    static func open(
        _ target: RedisTarget, _ endpoint: RedisEndpoint, on loop: EventLoop, timeoutMilliseconds: Int
    ) async throws(RedisFailure) -> RedisConnection {
        let greetingDeadline = Deadline.inMilliseconds(greetingTimeoutMilliseconds)
        let stream = try await RedisStream.connect(
            to: target.address, endpoint, on: loop, until: greetingDeadline)
        do throws(RedisFailure) {
            let digest = try await greet(stream, target.kind, endpoint, until: greetingDeadline)
            let deadline = Deadline.inMilliseconds(timeoutMilliseconds)
            switch target.kind {
            case .named, .primary:
                try await test(stream, RedisKeys.probe, until: deadline)
            case .clusterNode(let tag?):
                try await test(stream, RedisKeys.probe(tag: tag), until: deadline)
            case .clusterNode(nil):
                // Without a tag, this process knows no key that the node accepts, so it sends PING instead of the
                // script.
                _ = try await converse(stream, RedisCommands("PING"), until: deadline)
            }
            return RedisConnection(
                stream: stream, scriptDigest: digest, timeoutMilliseconds: timeoutMilliseconds)
        } catch {
            stream.close()
            throw error
        }
    }

    static func authentication(_ endpoint: RedisEndpoint) -> RedisCommands {
        guard let password = endpoint.password else { return RedisCommands() }
        var commands = RedisCommands()
        commands.append(endpoint.username.map { ["AUTH", $0, password] } ?? ["AUTH", password])
        return commands
    }

    /// Authenticates, selects the database, checks the kind of the server, and loads the script. Returns the script's
    /// digest.
    private static func greet(
        _ stream: RedisStream, _ kind: RedisTarget.Kind, _ endpoint: RedisEndpoint, until deadline: Deadline
    ) async throws(RedisFailure) -> String {
        var commands = authentication(endpoint)
        // Redis permits HELLO to every user. An error reply is ignored, because Redis before version 6 does not have
        // HELLO.
        let hello = commands.count
        commands.append(["HELLO", "2"])
        if endpoint.database != 0 { commands.append(["SELECT", String(endpoint.database)]) }
        commands.append(["SCRIPT", "LOAD", AdmissionScript.source])
        var replies = try await exchange(stream, commands, until: deadline)
        if let text = replies[..<hello].lazy.compactMap(\.errorText).first { throw RedisFailure(errorText: text) }
        let identity = RedisIdentity(replies.remove(at: hello))
        if identity.mode == "cluster" && endpoint.database != 0 { throw .databaseOfCluster }
        try check(identity, kind)
        if let text = replies.lazy.compactMap(\.errorText).first { throw RedisFailure(errorText: text) }
        guard case .string(let digest)? = replies.last, digest.utf8.count == 40 else { throw .unexpectedReply }
        return digest
    }

    private static func check(_ identity: RedisIdentity, _ kind: RedisTarget.Kind) throws(RedisFailure) {
        switch kind {
        case .named(let isOneOfSeveral):
            if identity.mode == "cluster" { throw .isCluster }
            if identity.mode == "sentinel" { throw .isSentinel }
            if isOneOfSeveral { throw .noCluster }
        case .primary, .clusterNode:
            if identity.isReplica { throw .notPrimary }
        }
    }

    private static func test(
        _ stream: RedisStream, _ prefix: String, until deadline: Deadline
    ) async throws(RedisFailure) {
        let replies = try await converse(stream, probe(prefix), until: deadline)
        guard case .array(let elements)? = replies.first, elements.first == .integer(0) else {
            throw .unexpectedReply
        }
    }

    /// Returns a command that tests whether Redis accepts writes. The command adds one charge with a random idempotency
    /// key to a window that only probes use. The window expires after one millisecond.
    private static func probe(_ prefix: String) -> RedisCommands {
        let key = String(UInt64.random(in: .min ... .max), radix: 36)
        return RedisCommands(
            "EVAL", AdmissionScript.source, "2", prefix, prefix + ":" + key, "1000000", "1", key, "0")
    }

    /// Reads exactly one reply per command. Throws when a reply is an error.
    static func converse(
        _ stream: RedisStream, _ commands: RedisCommands, _ size: RedisReplyReader.ReplySize = .small,
        until deadline: Deadline
    ) async throws(RedisFailure) -> [RedisReply] {
        let replies = try await exchange(stream, commands, size, until: deadline)
        if let text = replies.lazy.compactMap(\.errorText).first { throw RedisFailure(errorText: text) }
        return replies
    }

    /// Writes the commands and reads exactly one reply per command.
    private static func exchange(
        _ stream: RedisStream, _ commands: RedisCommands, _ size: RedisReplyReader.ReplySize = .small,
        until deadline: Deadline
    ) async throws(RedisFailure) -> [RedisReply] {
        var replies: [RedisReply] = []
        do {
            let reader = try RedisReplyReader(size)
            try await stream.write(commands.bytes, until: deadline)
            while replies.count < commands.count {
                let more = try await stream.read(until: deadline) { bytes in
                    bytes.isEmpty ? nil : Result { try reader.feed(bytes) }
                }
                guard let more = try more?.get() else { throw TransportError.reset }
                replies += more
            }
        } catch let error as TransportError {
            throw error == .timedOut ? .timedOut : .connection
        } catch let error as RedisFailure {
            throw error
        } catch {
            throw .unexpectedReply
        }
        guard replies.count == commands.count else { throw .unexpectedReply }
        return replies
    }

    // MARK: - Serving

    /// Sends commands and reads replies until the connection is lost, a call's deadline passes, or the pipeline ends.
    /// Then closes the connection and ends the pipeline.
    ///
    /// Returns the failure; nil if there was none. A lost connection counts as a failure only if a call was waiting.
    ///
    /// - Parameter report: called with error replies to commands that `RedisPipeline.post` added.
    func serve(
        _ pipeline: RedisPipeline, report: @escaping @Sendable (RedisFailure) -> Void
    ) async -> RedisFailure? {
        await withTaskGroup(of: RedisFailure?.self) { group in
            group.addTask { await write(from: pipeline) }
            group.addTask { await read(into: pipeline, report) }
            let failure = await group.next() ?? nil
            stream.close()
            let hadCalls = pipeline.end()
            group.cancelAll()
            return failure == .connection && !hadCalls ? nil : failure
        }
    }

    private func write(from pipeline: RedisPipeline) async -> RedisFailure? {
        while let bytes = await pipeline.nextBytes() {
            do {
                try await stream.write(bytes)
            } catch {
                return .connection
            }
        }
        return nil
    }

    /// Reads replies and passes them to the pipeline. Replies come in the order of the calls, so only the deadline of
    /// the first waiting call is checked.
    ///
    /// If no call waits, a read lasts at most `timeoutMilliseconds`. A call that is added during this read has a
    /// deadline after the end of the read. The next read therefore checks this deadline in time.
    private func read(
        into pipeline: RedisPipeline, _ report: (RedisFailure) -> Void
    ) async -> RedisFailure? {
        guard let reader = try? RedisReplyReader() else { return .connection }
        while true {
            let deadline = pipeline.firstDeadline
            if let deadline, deadline.hasPassed { return .timedOut }
            do {
                let delivery = try await stream.read(until: deadline ?? .inMilliseconds(timeoutMilliseconds)) {
                    bytes in bytes.isEmpty ? nil : Result { pipeline.deliver(try reader.feed(bytes)) }
                }
                guard let delivery = try delivery?.get() else { return .connection }
                if delivery.unasked > 0 { return .unexpectedReply }
                if let error = delivery.error { report(RedisFailure(errorText: error)) }
            } catch let error as TransportError {
                guard error == .timedOut else { return .connection }
            } catch let error as RedisFailure {
                return error
            } catch {
                return .unexpectedReply
            }
        }
    }
}

/// The mode and the role that a server states in the reply to HELLO.
struct RedisIdentity: Hashable, Sendable {
    /// "standalone", "cluster" or "sentinel"; nil if the server does not say it.
    private(set) var mode: String?
    private(set) var isReplica = false

    /// - Parameter reply: an array that alternates names and values. Any other reply leaves `mode` nil and `isReplica`
    ///   false.
    init(_ reply: RedisReply) {
        guard case .array(let elements) = reply else { return }
        for index in stride(from: 0, to: elements.count - 1, by: 2) {
            switch (elements[index], elements[index + 1]) {
            case (.string("mode"), .string(let mode)): self.mode = mode
            case (.string("role"), .string(let role)): isReplica = role != "master"
            default: break
            }
        }
    }
}
