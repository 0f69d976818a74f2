// The changes that the commands of `dwell driver` make. If a server answers on the control socket of the database, the
// server makes the change and updates its caches at once.
//
// If no server answers, or with PostgreSQL, the command itself makes the change in the database.

import API
import ArgumentParser
import Foundation
import Identity
import JourneyModel
import Sockets

struct DriverErasure: Sendable {
    var receipt: ErasureReceipt
    /// Whether SQLite's WAL still contains deleted bytes, because a reader uses a snapshot from before the deletion.
    /// Always false with PostgreSQL.
    var isInWAL: Bool
}

protocol DriverChanges: Sendable {
    /// Ends all sign-in sessions of the driver. Returns the number of ended sessions; nil for an unknown driver.
    func signOut(_ driver: DriverID) async throws -> Int?
    /// Deletes the driver. Returns nil for an unknown driver.
    func erase(_ driver: DriverID) async throws -> DriverErasure?
    func missing(_ erasures: [RecordedErasure]) async throws -> MissingErasures
    /// Repeats the deletions. Returns whether the WAL still contains deleted bytes.
    func repeatErasures(_ missing: MissingErasures) async throws -> Bool
}

extension MissingErasures {
    var all: [RecordedErasure] { drivers.map(\.erasure) + withoutDriver }
}

/// If a server answers on the database's control socket, runs `body` with `ServerChanges`. If no server answers, or
/// with PostgreSQL, runs `body` with `FileChanges`. Prints errors to standard error and fails the command.
func changingDrivers<Outcome>(
    _ options: SettingsOptions, _ body: (any DriverChanges) async throws -> Outcome
) async throws -> Outcome {
    let configuration = try options.configuration()
    do {
        if case .sqlite(let path) = configuration.database, let server = try await ServerChanges(database: path) {
            return try await body(server)
        }
    } catch let failure as ServerChanges.Failure {
        writeToStandardError("\(failure)\n")
        throw ExitCode.failure
    }
    return try await changing(configuration) { stores, _ in
        try await body(FileChanges(stores.accounts, redis: configuration.redis))
    }
}

/// Changes drivers' accounts through the control socket of the running server.
struct ServerChanges: DriverChanges {
    struct Failure: Error, CustomStringConvertible {
        var description: String
    }

    /// The timeout of a request in seconds. Deleting a driver with a million events takes half a minute, and several
    /// minutes if the server is busy.
    private static let seconds = 900

    private let socket: LocalExchange
    private let database: String

    /// Connects to the control socket of the database. Returns nil if the database file is missing, or if no server
    /// listens on the socket. The socket's file may exist without a server, because a killed server leaves it behind.
    ///
    /// - Throws: `Failure` if the server does not respond, is not Dwell, or has another version.
    init?(database path: String) async throws {
        guard let identity = ControlSocket.identity(ofDatabase: path) else { return nil }
        database = identity
        socket = LocalExchange(address: .unix(path: ControlSocket.path(ofDatabase: path)))
        let answer: LocalExchange.Answer
        do {
            answer = try await socket.send("GET", ControlRoutes.statusPath, fields: "", within: .inSeconds(5))
        } catch TransportError.system(_, errno: ENOENT), TransportError.system(_, errno: ECONNREFUSED),
            TransportError.unresolvable
        {
            return nil
        } catch {
            throw Failure(description: "the server on \(socket.address) does not respond: \(error)")
        }
        struct Status: Decodable { var version: String }
        guard answer.status == 200, let status: Status = Self.decoded(answer.body) else {
            throw Failure(description: "the server on \(socket.address) is not Dwell")
        }
        guard status.version == version else {
            throw Failure(
                description:
                    "the running server has version \(status.version), this command \(version): use the server's binary"
            )
        }
    }

    func signOut(_ driver: DriverID) async throws -> Int? {
        struct Reply: Decodable { var ended: Int }
        let reply: Reply? = try await post(ControlRoutes.signOutPath, ["driver_id": .string(driver.rawValue)])
        return reply?.ended
    }

    func erase(_ driver: DriverID) async throws -> DriverErasure? {
        struct Reply: Decodable { var receipt, deletedAt: String, isInWal: Bool }
        let reply: Reply? = try await post(ControlRoutes.erasePath, ["driver_id": .string(driver.rawValue)])
        guard let reply else { return nil }
        guard let deletedAt = RFC3339.moment(from: reply.deletedAt) else { throw notUnderstood }
        return DriverErasure(
            receipt: ErasureReceipt(id: reply.receipt, deletedAt: deletedAt), isInWAL: reply.isInWal)
    }

    func missing(_ erasures: [RecordedErasure]) async throws -> MissingErasures {
        var missing = MissingErasures()
        // Send only the latest deletion of each driver, because the list may contain several. The server finds
        // duplicates only within one request, and the list is sent in several requests.
        let latest = Dictionary(erasures.map { ($0.digest, $0) }) { $0.at >= $1.at ? $0 : $1 }
        try await inParts(Array(latest.values), isDryRun: true) { reply in
            for driver in reply.drivers {
                guard let erasure = RecordedErasure(line: driver.erasure) else { throw notUnderstood }
                missing.drivers.append((DriverID(driver.driverId), erasure))
            }
            missing.withoutDriver += try reply.withoutDriver.map { line in
                guard let erasure = RecordedErasure(line: line) else { throw notUnderstood }
                return erasure
            }
        }
        missing.drivers.sort { $0.erasure.at < $1.erasure.at }
        return missing
    }

    func repeatErasures(_ missing: MissingErasures) async throws -> Bool {
        var isInWAL = false
        try await inParts(missing.all, isDryRun: false) { reply in isInWAL = isInWAL || reply.isInWal }
        return isInWAL
    }

    // MARK: Requests

    private struct Erasures: Decodable {
        struct Driver: Decodable { var driverId, erasure: String }
        var drivers: [Driver]
        var withoutDriver: [String]
        var isInWal: Bool
    }

    private func inParts(
        _ erasures: [RecordedErasure], isDryRun: Bool, _ body: (Erasures) throws -> Void
    ) async throws {
        for start in stride(from: 0, to: erasures.count, by: ControlRoutes.erasuresMax) {
            let part = erasures[start..<min(start + ControlRoutes.erasuresMax, erasures.count)]
            let lines = part.map(\.line).joined(separator: "\n")
            let reply: Erasures? = try await post(
                ControlRoutes.repeatErasuresPath, ["erasures": .string(lines), "dry_run": .bool(isDryRun)])
            guard let reply else { throw notUnderstood }
            try body(reply)
        }
    }

    /// Sends a request and returns the decoded body of the response. Returns nil if the response is a 404.
    func post<Reply: Decodable>(_ path: String, _ members: [String: JSONValue]) async throws -> Reply? {
        var writer = JSONWriter()
        writer.beginObject()
        for (name, value) in members.merging(["database": .string(database)], uniquingKeysWith: { $1 }) {
            writer.name(name)
            writer.value(value)
        }
        writer.endObject()
        let answer: LocalExchange.Answer
        do {
            answer = try await socket.send(
                "POST", path, fields: "Content-Type: application/json\r\n", body: writer.bytes,
                within: .inSeconds(Self.seconds))
        } catch {
            throw Failure(
                description:
                    "the server on \(socket.address) did not respond (\(error)): the change may have been made; run the command again"
            )
        }
        if answer.status == 404 { return nil }
        guard answer.status == 200 else { throw Failure(description: refusal(answer)) }
        guard let reply: Reply = Self.decoded(answer.body) else { throw notUnderstood }
        return reply
    }

    private func refusal(_ answer: LocalExchange.Answer) -> String {
        struct Problem: Decodable {
            struct Field: Decodable { var pointer, detail: String }
            var detail: String
            var errors: [Field]?
        }
        guard let problem: Problem = Self.decoded(answer.body) else {
            return "the server on \(socket.address) answers \(answer.status.map { String($0) } ?? "no HTTP")"
        }
        let fields = (problem.errors ?? []).map { "\($0.pointer.dropFirst()) \($0.detail)" }
        let reason = fields.isEmpty ? problem.detail : fields.joined(separator: "; ")
        return "the server on \(socket.address) rejects the request: \(reason)"
    }

    var notUnderstood: Failure {
        Failure(description: "cannot decode the response of the server on \(socket.address): is it another version?")
    }

    private static func decoded<Value: Decodable>(_ body: [UInt8]) -> Value? {
        let decoder = JSONDecoder()
        decoder.keyDecodingStrategy = .convertFromSnakeCase
        return try? decoder.decode(Value.self, from: Data(body))
    }
}
