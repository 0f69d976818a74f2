// The Unix socket on which a running server accepts the operator's commands. Its path is that of the database with
// `.sock` added, for example `dwell.sqlite3.sock`, so that a command reaches only the server of its own database.

import Foundation
import HTTPServer
import Logging
import SQLiteStore
import ServiceLifecycle
import Sockets

enum ControlSocket {
    /// Returns the socket's path. Symbolic links are resolved, so that all paths to one database lead to the same
    /// socket.
    static func path(ofDatabase path: String) -> String {
        URL(fileURLWithPath: path).resolvingSymlinksInPath().path + ".sock"
    }

    /// Returns the device and inode of the file, which identify it independently of its path. Returns nil for a missing
    /// file.
    static func identity(ofDatabase path: String) -> String? {
        let resolved = URL(fileURLWithPath: path).resolvingSymlinksInPath().path
        guard let attributes = try? FileManager.default.attributesOfItem(atPath: resolved),
            let device = attributes[.systemNumber] as? NSNumber,
            let file = attributes[.systemFileNumber] as? NSNumber
        else { return nil }
        return "\(device.uint64Value):\(file.uint64Value)"
    }
}

/// Serves the control socket for as long as the group runs. A server without a control socket works too: commands then
/// change the database file themselves.
struct ControlService: Service {
    /// The pause before the next attempt to listen. Another server on the same file may hold the socket until it ends,
    /// for example during a deploy.
    static let retryPause = Duration.seconds(5)

    let makeServer: @Sendable () -> Server
    let logger: Logger

    func run() async throws {
        let server = await cancelWhenGracefulShutdown { await start() }
        try? await gracefulShutdown()
        await server?.drain(withinSeconds: 1)
    }

    /// Returns the server once it listens, or nil when the group shuts down first.
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
