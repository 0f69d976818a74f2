// Sends one GET request over a socket, and returns the status code of the response. Supports only the part of HTTP that
// such a request needs (RFC 9112, sections 3 and 4).

import Foundation
import Sockets

struct HealthRequest: Sendable {
    let address: SocketAddress
    let path: String

    /// Creates a request to the first address of the server on this machine. The loopback address replaces a wildcard
    /// address, because a client cannot connect to a wildcard address.
    init(http: Configuration.HTTP, path: String = "/healthz") {
        self.path = path
        switch http.hosts.first {
        case nil: address = .unix(path: http.unixSocketPath ?? "")
        case "0.0.0.0": address = .ip(host: "127.0.0.1", port: http.port)
        case "::": address = .ip(host: "::1", port: http.port)
        case .some(let host): address = .ip(host: host, port: http.port)
        }
    }

    /// Creates a request to `url`, which must have the form `http://host[:port][/path]`. Returns nil for any other URL.
    init?(url: String) {
        guard let components = URLComponents(string: url), components.scheme?.lowercased() == "http",
            let host = components.host, !host.isEmpty, components.user == nil, components.fragment == nil
        else { return nil }
        let port = components.port ?? 80
        guard (1...65_535).contains(port) else { return nil }
        address = .ip(host: host.trimmingCharacters(in: CharacterSet(charactersIn: "[]")), port: port)
        let target = components.percentEncodedPath.isEmpty ? "/healthz" : components.percentEncodedPath
        path = target + (components.percentEncodedQuery.map { "?" + $0 } ?? "")
    }

    /// Sends the request and returns the status code of the response. Returns nil when the response is not HTTP/1.1.
    /// The deadline covers connecting, sending and receiving.
    func ask(within deadline: Deadline) async throws -> Int? {
        let loops = try EventLoopGroup(count: 1)
        let outcome: Result<[UInt8], TransportError>
        do throws(TransportError) {
            outcome = .success(try await exchange(on: loops.next(), until: deadline))
        } catch {
            outcome = .failure(error)
        }
        await loops.shutdown()
        return Self.statusCode(of: try outcome.get())
    }

    /// Returns the beginning of the response. It contains the status code, unless the server closes the connection
    /// early.
    private func exchange(on loop: EventLoop, until deadline: Deadline) async throws(TransportError) -> [UInt8] {
        let connection = try await Connection.connect(to: address, on: loop, until: deadline)
        defer { connection.close() }
        let host =
            switch address {
            case .ip: "\(address)"
            case .unix, .inherited: "localhost"
            }
        let request = "GET \(path) HTTP/1.1\r\nHost: \(host)\r\nConnection: close\r\n\r\n"
        try await connection.write(Array(request.utf8), until: deadline)
        var answer: [UInt8] = []
        while answer.count < Self.statusLineStart.count + 4 {
            let bytes = try await connection.read(until: deadline)
            if bytes.isEmpty { break }
            answer += bytes
        }
        return answer
    }

    private static let statusLineStart = Array("HTTP/1.1 ".utf8)

    /// Returns the three digits of a status line such as `HTTP/1.1 200 OK`. A space must follow the digits.
    static func statusCode(of answer: [UInt8]) -> Int? {
        guard answer.starts(with: statusLineStart), answer.count >= statusLineStart.count + 4 else { return nil }
        let digits = answer[statusLineStart.count...].prefix(3)
        guard answer[statusLineStart.count + 3] == UInt8(ascii: " "),
            digits.allSatisfy({ (UInt8(ascii: "0")...UInt8(ascii: "9")).contains($0) })
        else { return nil }
        return Int(String(decoding: digits, as: UTF8.self))
    }
}
