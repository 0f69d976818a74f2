// Reads and deletes the keys of one driver, for commands that run without the server.

package import JourneyModel
package import Sockets

extension RedisRateLimiter {
    /// Returns the keys in Redis that contain the driver's id. Used by a command that checks whether a deletion was
    /// complete.
    package static func keys(
        of driver: DriverID, at endpoint: RedisEndpoint, on loop: EventLoop
    ) async throws -> [String] {
        let keys = RedisKeys.all(of: driver)
        var commands = RedisCommands()
        for key in keys { commands.append(["EXISTS", key]) }
        let replies = try await converse(commands, of: driver, at: endpoint, on: loop)
        return zip(keys, replies).filter { $0.1 != .integer(0) }.map(\.0)
    }

    /// Deletes every key in Redis that contains the driver's id. Used by a command that runs without the server.
    package static func removeKeys(
        of driver: DriverID, at endpoint: RedisEndpoint, on loop: EventLoop
    ) async throws {
        var commands = RedisCommands()
        commands.append(["DEL"] + RedisKeys.all(of: driver))
        let replies = try await converse(commands, of: driver, at: endpoint, on: loop)
        guard case .integer(_)? = replies.first else { throw RedisFailure.unexpectedReply }
    }

    /// Sends the commands to the node that has the driver's keys.
    private static func converse(
        _ commands: RedisCommands, of driver: DriverID, at endpoint: RedisEndpoint, on loop: EventLoop
    ) async throws(RedisFailure) -> [RedisReply] {
        let stream = try await open(endpoint, for: driver, on: loop).stream
        defer { stream.close() }
        return try await RedisConnection.converse(stream, commands, until: .inSeconds(5))
    }

    private static func open(
        _ endpoint: RedisEndpoint, for driver: DriverID, on loop: EventLoop
    ) async throws(RedisFailure) -> RedisConnection {
        let timeoutMilliseconds = 1000
        do throws(RedisFailure) {
            return try await RedisSource(endpoint).open(
                endpoint, on: loop, timeoutMilliseconds: timeoutMilliseconds)
        } catch {
            guard error == .isCluster else { throw error }
        }
        let map = try await RedisClusterSlots.fetch(from: endpoint.servers, endpoint, on: loop)
        guard let owner = map.owner(of: RedisKeys.slot(of: driver)) else { throw .errorReply("CLUSTERDOWN") }
        return try await RedisConnection.open(
            RedisTarget(address: owner, kind: .clusterNode(probeTag: nil)), endpoint, on: loop,
            timeoutMilliseconds: timeoutMilliseconds)
    }
}
