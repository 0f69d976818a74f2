// A TLS server with an untrusted certificate. The openssl command runs it.

import Foundation

struct UntrustedServer {
    static let openssl = "/usr/bin/openssl"
    static var isPossible: Bool { FileManager.default.isExecutableFile(atPath: openssl) }

    let url: URL
    private let process: Process
    private let folder: URL

    init() throws {
        folder = FileManager.default.temporaryDirectory.appending(path: "dwell-tls-\(UUID().uuidString)")
        try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
        let (key, certificate) = (folder.appending(path: "key.pem").path, folder.appending(path: "cert.pem").path)
        let making = try Self.start([
            "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "1", "-subj",
            "/CN=localhost", "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1", "-keyout", key, "-out",
            certificate,
        ]).output
        // This read ends when the process ends. `waitUntilExit` would need a thread with a run loop.
        _ = try making.readToEnd()
        let (server, output) = try Self.start(["s_server", "-accept", "0", "-www", "-key", key, "-cert", certificate])
        process = server
        // The server prints a line such as "ACCEPT 0.0.0.0:34567" or "ACCEPT [::]:34567".
        var text = ""
        while !text.contains("\n") || !text.contains("ACCEPT ") {
            let more = output.availableData
            guard !more.isEmpty else { throw CocoaError(.fileReadUnknown) }
            text += String(decoding: more, as: UTF8.self)
        }
        let line = text.split(separator: "\n").first { $0.hasPrefix("ACCEPT ") } ?? ""
        guard let port = line.split(separator: ":").last, let url = URL(string: "https://127.0.0.1:\(port)/") else {
            throw CocoaError(.fileReadUnknown)
        }
        self.url = url
    }

    func stop() {
        // SIGTERM would not end the child, because the child inherits a signal mask that blocks SIGTERM.
        kill(process.processIdentifier, SIGKILL)
        try? FileManager.default.removeItem(at: folder)
    }

    private static func start(_ arguments: [String]) throws -> (process: Process, output: FileHandle) {
        let process = Process()
        let output = Pipe()
        process.executableURL = URL(filePath: openssl)
        process.arguments = arguments
        process.standardOutput = output
        process.standardError = FileHandle.nullDevice
        try process.run()
        return (process, output.fileHandleForReading)
    }
}
