// Opens a connection to an endpoint and tests it: authenticates, selects the database, loads the script, and checks
// that Redis makes one decision within the timeout. After that, `serve` moves bytes between the socket and a pipeline.

internal import Sockets

/// One connection to Redis, from connect to close. It is used only on its loop.
struct RedisConnection: Sendable {
    let connection: Connection
    /// The script's digest for EVALSHA, as computed by Redis.
    let scriptDigest: String

    /// The timeout for all steps before the probe. No request waits during these steps.
    private static let greetingTimeoutMilliseconds = 1000
    /// The timeout of a call.
    let timeoutMilliseconds: Int

    /// Connects, authenticates, and runs the script once so that it makes a decision and writes. This run is a test. It
    /// fails if Redis is read-only, full, or slower than the timeout of a call. A connection that failed the test is
    /// not used for requests.
    static func open(
        _ endpoint: RedisEndpoint, on loop: EventLoop, timeoutMilliseconds: Int
    ) async throws(RedisFailure) -> RedisConnection {
        let greetingDeadline = Deadline.inMilliseconds(greetingTimeoutMilliseconds)
        let connection: Connection
        do {
            connection = try await Connection.connect(to: endpoint.address, on: loop, until: greetingDeadline)
        } catch {
            throw error == .timedOut ? .timedOut : .connection
        }
        do throws(RedisFailure) {
            let greeting = try await converse(connection, greeting(endpoint), until: greetingDeadline)
            guard case .string(let digest)? = greeting.last, digest.utf8.count == 40 else { throw .unexpectedReply }
            let probe = try await converse(
                connection, probe(), until: .inMilliseconds(timeoutMilliseconds))
            guard case .array(let elements)? = probe.first, elements.first == .integer(0) else {
                throw .unexpectedReply
            }
            return RedisConnection(
                connection: connection, scriptDigest: digest, timeoutMilliseconds: timeoutMilliseconds)
        } catch {
            connection.close()
            throw error
        }
    }

    private static func greeting(_ endpoint: RedisEndpoint) -> RedisCommands {
        var commands = RedisCommands()
        if let password = endpoint.password {
            commands.append(endpoint.username.map { ["AUTH", $0, password] } ?? ["AUTH", password])
        }
        if endpoint.database != 0 { commands.append(["SELECT", String(endpoint.database)]) }
        commands.append(["SCRIPT", "LOAD", AdmissionScript.source])
        return commands
    }

    /// Returns a command that tests whether Redis accepts writes. The command adds one charge to a window that only
    /// probes use. The window expires after one millisecond. Each probe has a new, random idempotency key.
    private static func probe() -> RedisCommands {
        let key = String(UInt64.random(in: .min ... .max), radix: 36)
        return RedisCommands(
            "EVAL", AdmissionScript.source, "2", RedisKeys.probe, RedisKeys.probe + ":" + key, "1000000", "1", key, "0")
    }

    /// Writes the commands and reads exactly one reply per command. Throws when a reply is an error.
    static func converse(
        _ connection: Connection, _ commands: RedisCommands, until deadline: Deadline
    ) async throws(RedisFailure) -> [RedisReply] {
        var replies: [RedisReply] = []
        do {
            let reader = try RedisReplyReader()
            try await connection.write(commands.bytes, until: deadline)
            while replies.count < commands.count {
                let more = try await connection.read(until: deadline) { bytes in
                    bytes.isEmpty ? nil : Result { try reader.feed(bytes) }
                }
                guard let more = try more?.get() else { throw TransportError.reset }
                replies += more
            }
        } catch let error as TransportError {
            throw error == .timedOut ? .timedOut : .connection
        } catch {
            throw .unexpectedReply
        }
        if let text = replies.lazy.compactMap(\.errorText).first { throw RedisFailure(errorText: text) }
        guard replies.count == commands.count else { throw .unexpectedReply }
        return replies
    }

    // MARK: - Serving

    /// Moves commands and replies until the connection is lost, a call's deadline passes, or the pipeline ends. Then
    /// closes the connection and ends the pipeline. Returns the failure. Returns nil if another task ended the
    /// pipeline, or if Redis closed a connection on which no call was waiting.
    ///
    /// - Parameter report: called with the error replies to commands for which no caller waits.
    func serve(
        _ pipeline: RedisPipeline, report: @escaping @Sendable (RedisFailure) -> Void
    ) async -> RedisFailure? {
        await withTaskGroup(of: RedisFailure?.self) { group in
            group.addTask { await write(from: pipeline) }
            group.addTask { await read(into: pipeline, report) }
            let failure = await group.next() ?? nil
            connection.close()
            let hadCalls = pipeline.end()
            group.cancelAll()
            return failure == .connection && !hadCalls ? nil : failure
        }
    }

    private func write(from pipeline: RedisPipeline) async -> RedisFailure? {
        while let bytes = await pipeline.nextBytes() {
            do {
                try await connection.write(bytes)
            } catch {
                return .connection
            }
        }
        return nil
    }

    /// Reads replies, and enforces the deadlines of calls. Replies come in the order of the calls, so only the first
    /// call's deadline is checked. While no call waits, each read ends after `timeoutMilliseconds`. A call that is
    /// added during such a read is therefore checked in time.
    private func read(
        into pipeline: RedisPipeline, _ report: (RedisFailure) -> Void
    ) async -> RedisFailure? {
        guard let reader = try? RedisReplyReader() else { return .connection }
        while true {
            let deadline = pipeline.firstDeadline
            if let deadline, deadline.hasPassed { return .timedOut }
            do {
                let delivery = try await connection.read(until: deadline ?? .inMilliseconds(timeoutMilliseconds)) {
                    bytes in bytes.isEmpty ? nil : Result { pipeline.deliver(try reader.feed(bytes)) }
                }
                guard let delivery = try delivery?.get() else { return .connection }
                if delivery.unasked > 0 { return .unexpectedReply }
                if let error = delivery.error { report(RedisFailure(errorText: error)) }
            } catch let error as TransportError {
                guard error == .timedOut else { return .connection }
            } catch {
                return .unexpectedReply
            }
        }
    }
}
