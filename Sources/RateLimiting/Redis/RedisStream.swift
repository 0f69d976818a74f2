// One connection to a server, with or without TLS.

internal import Sockets

struct RedisStream: Sendable {
    private let connection: Connection
    private let tls: RedisTLSSession?

    /// Connects, and makes the TLS handshake if the endpoint has TLS.
    static func connect(
        to address: SocketAddress, _ endpoint: RedisEndpoint, on loop: EventLoop, until deadline: Deadline
    ) async throws(RedisFailure) -> RedisStream {
        let connection: Connection
        do {
            connection = try await Connection.connect(to: address, on: loop, until: deadline)
        } catch {
            throw error == .timedOut ? .timedOut : .connection
        }
        guard let tls = endpoint.tls, case .ip(let host, _) = address else {
            return RedisStream(connection: connection, tls: nil)
        }
        do throws(RedisFailure) {
            let session = try tls.session(host: host)
            try await shakeHands(session, connection, until: deadline)
            return RedisStream(connection: connection, tls: session)
        } catch {
            connection.close()
            throw error
        }
    }

    private static func shakeHands(
        _ session: RedisTLSSession, _ connection: Connection, until deadline: Deadline
    ) async throws(RedisFailure) {
        while true {
            let (isComplete, bytes) = try session.handshake()
            do {
                try await connection.write(bytes, until: deadline)
                if isComplete { return }
                let received = try await connection.read(until: deadline)
                if received.isEmpty { throw TransportError.reset }
                try received.withUnsafeBytes { try session.receive($0) }
            } catch let error as RedisFailure {
                throw error
            } catch {
                throw (error as? TransportError) == .timedOut ? .timedOut : .connection
            }
        }
    }

    /// Writes all bytes. Only one task at a time may write.
    func write(_ bytes: [UInt8], until deadline: Deadline = .never) async throws {
        guard let tls else { return try await connection.write(bytes, until: deadline) }
        try await connection.write(tls.encrypted(bytes), until: deadline)
    }

    /// Waits for bytes and calls `body` with them. At the end of the stream, calls `body` with an empty buffer.
    func read<Answer>(until deadline: Deadline, _ body: (UnsafeRawBufferPointer) -> Answer) async throws -> Answer {
        guard let tls else { return try await connection.read(until: deadline, body) }
        while true {
            let received = try await connection.read(until: deadline) { bytes in
                Result { () throws(RedisFailure) in
                    try tls.receive(bytes)
                    let (content, isEnd) = try tls.decrypted()
                    return (content, isEnd || bytes.isEmpty)
                }
            }
            let (content, isEnd) = try received.get()
            if !content.isEmpty || isEnd { return content.withUnsafeBytes(body) }
        }
    }

    /// Closes the connection, without the alert that ends a TLS session, because Redis does not need this alert.
    func close() {
        connection.close()
    }
}
