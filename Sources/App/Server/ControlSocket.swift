// The Unix socket on which a running server accepts the operator's commands: beside the database file, as
// `dwell.sqlite3.sock`, so that a command finds the server of its own database and no other.

import Foundation
import HTTPServer
import Logging
import SQLiteStore
import ServiceLifecycle
import Sockets

enum ControlSocket {
    /// Symbolic links are resolved, so that all spellings of a path lead to one socket.
    static func path(ofDatabase path: String) -> String {
        URL(fileURLWithPath: path).resolvingSymlinksInPath().path + ".sock"
    }

    /// Identifies a file however it is named: device and inode. Nil for a missing file.
    static func identity(ofDatabase path: String) -> String? {
        let resolved = URL(fileURLWithPath: path).resolvingSymlinksInPath().path
        guard let attributes = try? FileManager.default.attributesOfItem(atPath: resolved),
            let device = attributes[.systemNumber] as? NSNumber,
            let file = attributes[.systemFileNumber] as? NSNumber
        else { return nil }
        return "\(device.uint64Value):\(file.uint64Value)"
    }
}

/// Serves the control socket for as long as the group runs. A server without it works: commands then change the
/// database file themselves.
struct ControlService: Service {
    /// Another server on the same file has the socket until it ends, for example during a deploy.
    static let retryPause = Duration.seconds(5)

    let makeServer: @Sendable () -> Server
    let logger: Logger

    func run() async throws {
        let server = await cancelWhenGracefulShutdown { await start() }
        try? await gracefulShutdown()
        await server?.drain(withinSeconds: 1)
    }

    /// Nil when the group shuts down before.
    private func start() async -> Server? {
        var isFirst = true
        while !Task.isCancelled {
            let server = makeServer()
            do {
                _ = try await server.start()
                return server
            } catch {
                logger.log(
                    level: isFirst ? .notice : .debug,
                    "no control socket; commands change the database file beside this server",
                    metadata: ["reason": "\(error)"])
                isFirst = false
            }
            try? await Task.sleep(for: Self.retryPause)
        }
        return nil
    }
}
