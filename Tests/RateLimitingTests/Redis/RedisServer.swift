// Starts a real redis-server for one test, on a Unix socket in its own directory. The Redis client in this file shares
// only the codec with the code under test.

import Foundation
import Sockets
import Synchronization

@testable import RateLimiting

#if canImport(Glibc)
    import Glibc
#endif

final class RedisServer: Sendable {
    let loops: EventLoopGroup
    let directory: String
    private let arguments: [String]
    private let process = Mutex<Process?>(nil)

    var socketPath: String { directory + "/redis.sock" }

    var endpoint: RedisEndpoint {
        get throws { try RedisEndpoint(parsing: "redis+unix://\(socketPath)") }
    }

    struct DidNotStart: Error {}

    static func with<Answer>(
        _ arguments: [String] = [], loops count: Int = 2, _ body: (RedisServer) async throws -> Answer
    ) async throws -> Answer {
        let server = RedisServer(loops: try EventLoopGroup(count: count), arguments)
        do {
            try await server.start()
            let answer = try await body(server)
            await server.dismantle()
            return answer
        } catch {
            await server.dismantle()
            throw error
        }
    }

    private init(loops: EventLoopGroup, _ arguments: [String]) {
        self.loops = loops
        self.arguments = arguments
        directory = NSTemporaryDirectory() + "dwell-redis-\(UInt32.random(in: .min ... .max))"
    }

    func start() async throws {
        try FileManager.default.createDirectory(atPath: directory, withIntermediateDirectories: true)
        let process = Process()
        process.executableURL = URL(fileURLWithPath: "/usr/bin/redis-server")
        process.arguments =
            ["--port", "0", "--unixsocket", socketPath, "--save", "", "--appendonly", "no", "--dir", directory]
            + arguments
        process.standardOutput = FileHandle.nullDevice
        process.standardError = FileHandle.nullDevice
        try process.run()
        self.process.withLock { $0 = process }
        guard await eventually({ await self.answersPing() }) else { throw DidNotStart() }
    }

    /// A reply that a password is required also counts.
    private func answersPing() async -> Bool {
        switch try? await command("PING") {
        case .status("PONG"): true
        case .error(let text): text.hasPrefix("NOAUTH")
        default: false
        }
    }

    func stop() {
        signal(SIGKILL)
        process.withLock { process in
            process?.waitUntilExit()
            process = nil
        }
    }

    /// SIGSTOP makes the server hang, SIGCONT lets it continue.
    func signal(_ number: Int32) {
        process.withLock { process in
            if let process, process.isRunning { kill(process.processIdentifier, number) }
        }
    }

    private func dismantle() async {
        stop()
        await loops.shutdown()
        try? FileManager.default.removeItem(atPath: directory)
    }

    @discardableResult
    func command(_ words: String...) async throws -> RedisReply {
        let connection = try await Connection.connect(
            to: .unix(path: socketPath), on: loops.loops[0], until: .inSeconds(5))
        defer { connection.close() }
        var commands = RedisCommands()
        commands.append(words)
        try await connection.write(commands.bytes, until: .inSeconds(5))
        let reader = try RedisReplyReader()
        while true {
            let replies = try await connection.read(until: .inSeconds(5)) { bytes in
                bytes.isEmpty ? nil : Result { try reader.feed(bytes) }
            }
            guard let replies = try replies?.get() else { throw TransportError.reset }
            if let reply = replies.first { return reply }
        }
    }
}

/// Returns true as soon as the condition holds, or false if it does not hold within ten seconds.
func eventually(_ condition: () async -> Bool) async -> Bool {
    let deadline = Deadline.inSeconds(10)
    while !deadline.hasPassed {
        if await condition() { return true }
        try? await Task.sleep(for: .milliseconds(5))
    }
    return await condition()
}
