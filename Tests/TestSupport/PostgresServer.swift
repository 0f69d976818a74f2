// Starts a real PostgreSQL server with TLS in a new folder. A shell in its own session has a pipe to the test process.
// When this process ends, the shell stops the server and removes the folder.

import Foundation
import Synchronization

#if canImport(Glibc)
    import Glibc
#endif

package final class PostgresServer: Sendable {
    /// The folder of the Unix socket, of `ca.pem`, and of `data`.
    package let folder: String
    package let port: Int
    private let shell: Process
    /// The server runs until this end of the pipe is closed.
    private let lifeline: FileHandle
    private let isStopped = Mutex(false)

    package struct DidNotStart: Error, CustomStringConvertible {
        package let description: String
    }

    private static let sharedServer = Mutex<Task<PostgresServer, any Error>?>(nil)

    /// Returns the server that all tests of this process share. No server of this class syncs the disk at a COMMIT.
    package static func shared() async throws -> PostgresServer {
        let task = sharedServer.withLock { shared in
            let task = shared ?? Task { try await PostgresServer() }
            shared = task
            return task
        }
        return try await task.value
    }

    // MARK: - Addresses

    /// Returns a URL that connects to the database over the Unix socket, as the superuser `dwell`.
    package func url(_ database: String = "postgres") -> String {
        let host = folder.replacingOccurrences(of: "/", with: "%2F")
        return "postgresql://dwell@\(host):\(port)/\(database)"
    }

    /// Returns a URL for TCP. The server's certificate is valid only for `localhost`. The user `locked` needs a
    /// password, which the test must set.
    package func urlOverTCP(
        _ database: String = "postgres", user: String = "dwell", host: String = "localhost", port: Int? = nil,
        parameters: String = "sslmode=disable"
    ) -> String {
        "postgresql://\(user)@\(host):\(port ?? self.port)/\(database)?\(parameters)"
    }

    /// Creates an empty database and returns its name.
    package func createDatabase() async throws -> String {
        let name = "test_\(UInt64.random(in: .min ... .max))"
        try await run("CREATE DATABASE \(name)")
        return name
    }

    /// Runs SQL with psql and returns one line for each row.
    @discardableResult
    package func run(_ sql: String, in database: String = "postgres") async throws -> String {
        try await Self.run(sql, at: url(database))
    }

    /// Runs SQL with psql on any server.
    @discardableResult
    package static func run(_ sql: String, at url: String) async throws -> String {
        let arguments = ["-X", "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1", "-d", url, "-c", sql]
        return try await output(of: program("psql"), arguments)
    }

    // MARK: - Start and stop

    /// Starts a server that one test may configure and stop. Other tests use `shared`.
    ///
    /// - Parameter settings: further lines of postgresql.conf, for example `["hot_standby = on"]`.
    /// - Parameter primary: if given, the new server is its standby. If nil, the new server has an empty database.
    package init(settings: [String] = [], standbyOf primary: PostgresServer? = nil) async throws {
        folder = NSTemporaryDirectory() + "dwell-postgres-\(UInt32.random(in: .min ... .max))"
        port = try Self.freePort()
        try FileManager.default.createDirectory(atPath: folder, withIntermediateDirectories: true)
        let copy = primary.map { "pg_basebackup --no-sync -R -D data -d '\($0.url())' -c fast" }
        let lines =
            [
                "listen_addresses = '127.0.0.1'", "port = \(port)", "unix_socket_directories = '\(folder)'",
                "shared_buffers = 32MB", "max_connections = 200", "fsync = off", "full_page_writes = off",
                "ssl = on", "ssl_cert_file = '\(folder)/cert.pem'", "ssl_key_file = '\(folder)/key.pem'",
            ] + settings
        let script = Self.script(
            folder: folder, create: copy ?? "initdb -D data -U dwell -A trust -E UTF8 --locale=C --no-sync",
            settings: lines)
        try script.write(toFile: folder + "/run", atomically: true, encoding: .utf8)
        let (shell, lifeline, output) = try Self.startShell(folder)
        (self.shell, self.lifeline) = (shell, lifeline)
        let text = await Self.readLine(output)
        guard text.hasPrefix("ready") else {
            throw DidNotStart(description: (try? String(contentsOfFile: folder + "/log", encoding: .utf8)) ?? text)
        }
    }

    /// Makes the shell stop the server as a crash would, and remove the folder. Returns at once. A second call does
    /// nothing.
    package func stop() {
        let isFirst = isStopped.withLock { isStopped in
            defer { isStopped = true }
            return !isStopped
        }
        if isFirst { try? lifeline.close() }
    }

    /// Stops the server as a crash would, and starts it again.
    package func restart() async throws {
        try await control("restart")
    }

    /// Stops the server as a crash would. `resume` starts it again.
    package func pause() async throws {
        try await control("stop")
    }

    package func resume() async throws {
        try await control("start")
    }

    private func control(_ action: String) async throws {
        let mode = action == "start" ? "" : "-m immediate"
        let program = "\(Self.asUser)'\(Self.program("pg_ctl"))'"
        let command = "\(Self.closingDescriptors) \(program) \(action) -w -D data -l log \(mode)"
        // The PostgreSQL server inherits the command's output. If this were a pipe, the read of the output would never
        // end.
        _ = try await Self.output(of: "/bin/sh", ["-c", "cd '\(folder)'; \(command) </dev/null >/dev/null 2>&1"])
    }

    private static func script(folder: String, create: String, settings: [String]) -> String {
        """
        # Signals to the test process must not end this shell before the server.
        trap '' INT TERM HUP
        cd '\(folder)' || exit 1
        PATH='\(programFolder)':/usr/bin:/bin
        {
            openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -subj /CN=test \\
                -keyout ca.key -out ca.pem &&
            openssl req -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -subj /CN=localhost -keyout key.pem \\
                -out request.pem &&
            printf 'subjectAltName=DNS:localhost' >extensions &&
            openssl x509 -req -in request.pem -CA ca.pem -CAkey ca.key -CAcreateserial -days 2 -extfile extensions \\
                -out cert.pem &&
            chmod 0600 key.pem &&
            \(create) &&
            cat >>data/postgresql.conf <<'END' &&
        \(settings.joined(separator: "\n"))
        END
            { echo 'host all locked 127.0.0.1/32 scram-sha-256'; cat data/pg_hba.conf; } >hba &&
            mv hba data/pg_hba.conf &&
            pg_ctl start -w -D data -l log
        } </dev/null >>log 2>&1 && echo ready || echo failed
        read -r end_of_test_process
        pg_ctl stop -m immediate -D data </dev/null >/dev/null 2>&1
        rm -rf '\(folder)'
        """
    }

    /// The beginning of a shell command. It closes all inherited descriptors except the standard ones. `Process` uses
    /// one of these descriptors, a socket, to notice the end of the process that it started.
    ///
    /// If the PostgreSQL server kept this socket open, an ended process would stay a zombie. Swift Testing would then
    /// wait forever for the next exit test.
    private static let closingDescriptors = #"""
        bash -c 'for path in /proc/$$/fd/*; do
            fd=${path##*/}
            if [ "$fd" -gt 2 ]; then eval "exec $fd>&-"; fi
        done
        exec "$@"' bash
        """#

    private static func startShell(
        _ folder: String
    ) throws -> (shell: Process, lifeline: FileHandle, output: FileHandle) {
        let shell = Process()
        shell.executableURL = URL(filePath: "/bin/sh")
        // PostgreSQL refuses to run as root.
        let own = getuid() == 0 ? "chown -R \(user) '\(folder)'; " : ""
        let command = "\(closingDescriptors) \(asUser)/bin/sh '\(folder)/run'"
        // The process that Process starts ends at once.
        shell.arguments = ["-c", "\(own)exec setsid --fork \(command)"]
        let (input, output) = (Pipe(), Pipe())
        shell.standardInput = input
        shell.standardOutput = output
        try shell.run()
        return (shell, input.fileHandleForWriting, output.fileHandleForReading)
    }

    // MARK: - Programs

    /// The programs of the newest installed PostgreSQL. On Debian, PATH does not contain them.
    private static let programFolder: String = {
        let versions = (try? FileManager.default.contentsOfDirectory(atPath: "/usr/lib/postgresql")) ?? []
        let newest = versions.compactMap { Int($0) }.max().map { "/usr/lib/postgresql/\($0)/bin" }
        return newest ?? "/usr/bin"
    }()

    private static func program(_ name: String) -> String { programFolder + "/" + name }

    private static let user = getpwnam("postgres") == nil ? "nobody" : "postgres"
    private static var asUser: String { getuid() == 0 ? "runuser -u \(user) -- " : "" }

    private static func output(of program: String, _ arguments: [String]) async throws -> String {
        let process = Process()
        let output = Pipe()
        process.executableURL = URL(filePath: "/bin/sh")
        // The shell appends the exit status, so one read gets the output and the status.
        process.arguments = ["-c", #""$@" 2>&1; echo $?"#, "sh", program] + arguments
        process.standardInput = FileHandle.nullDevice
        process.standardOutput = output
        try process.run()
        var lines = await readAll(output.fileHandleForReading).split(
            separator: "\n", omittingEmptySubsequences: false)
        lines.removeLast()
        let status = lines.popLast()
        let text = lines.joined(separator: "\n")
        guard status == "0" else { throw DidNotStart(description: "\(program): \(text)") }
        return text
    }

    private static func readAll(_ file: FileHandle) async -> String {
        await onThread { String(decoding: (try? file.readToEnd()) ?? Data(), as: UTF8.self) }
    }

    private static func readLine(_ file: FileHandle) async -> String {
        await onThread {
            var text = Data()
            while !text.contains(UInt8(ascii: "\n")) {
                let more = file.availableData
                if more.isEmpty { break }
                text += more
            }
            return String(decoding: text, as: UTF8.self)
        }
    }

    /// Runs a blocking call on a new thread. On a thread of Swift's pool, the call would block other tasks.
    private static func onThread(_ body: @escaping @Sendable () -> String) async -> String {
        await withCheckedContinuation { continuation in
            Thread.detachNewThread { continuation.resume(returning: body()) }
        }
    }

    /// Returns a TCP port that nobody listens on.
    private static func freePort() throws -> Int {
        let descriptor = socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)
        defer { close(descriptor) }
        var address = sockaddr_in()
        address.sin_family = sa_family_t(AF_INET)
        address.sin_addr.s_addr = UInt32(0x7f00_0001).bigEndian
        var length = socklen_t(MemoryLayout<sockaddr_in>.size)
        let bound = withUnsafeMutablePointer(to: &address) { pointer in
            pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) { address in
                bind(descriptor, address, length) == 0 && getsockname(descriptor, address, &length) == 0
            }
        }
        guard bound else { throw DidNotStart(description: "no free port") }
        return Int(UInt16(bigEndian: address.sin_port))
    }
}
