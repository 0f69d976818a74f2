// The Unix socket on which a running server accepts operator commands. The socket's path is the path of the database
// with `.sock` added, for example `dwell.sqlite3.sock`. A command therefore reaches only a server that uses the same
// database.

import Foundation
import HTTPServer
import Logging
import ServiceLifecycle
import Sockets

enum ControlSocket {
    /// Returns the path of the socket. Symbolic links in `path` are resolved first, so that all paths to one database
    /// lead to the same socket.
    static func path(ofDatabase path: String) -> String {
        URL(fileURLWithPath: path).resolvingSymlinksInPath().path + ".sock"
    }

    /// Returns the device and the inode of the file; nil for a missing file. These two numbers identify the file
    /// independently of its path.
    static func identity(ofDatabase path: String) -> String? {
        let resolved = URL(fileURLWithPath: path).resolvingSymlinksInPath().path
        guard let attributes = try? FileManager.default.attributesOfItem(atPath: resolved),
            let device = attributes[.systemNumber] as? NSNumber,
            let file = attributes[.systemFileNumber] as? NSNumber
        else { return nil }
        return "\(device.uint64Value):\(file.uint64Value)"
    }
}

/// Serves the control socket while the service group runs. If the socket cannot be used, the server runs without it,
/// and commands change the database file themselves.
struct ControlService: Service {
    /// The pause after a failed attempt to listen. An attempt fails, for example, during a deploy, while the old server
    /// on the same database file still uses the socket.
    static let retryPause = Duration.seconds(5)

    let makeServer: @Sendable () -> Server
    let logger: Logger

    func run() async throws {
        let server = await cancelWhenGracefulShutdown { await start() }
        try? await gracefulShutdown()
        await server?.drain(withinSeconds: 1)
    }

    /// Returns the server as soon as it listens. Returns nil if the service group shuts down first.
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
