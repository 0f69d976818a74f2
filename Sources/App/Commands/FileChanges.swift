// The changes that a command itself makes in the database.

import ArgumentParser
import Identity
import JourneyModel
import Logging
import RateLimiting
import SQLiteStore
import Sockets

/// Changes drivers' accounts directly in the database. Used with PostgreSQL, and with SQLite if no server answers on
/// the control socket of the database.
struct FileChanges: DriverChanges {
    private let accounts: OperatorAccounts

    init(_ accounts: any OperatorAccountStore, redis: Configuration.Redis) {
        self.accounts = OperatorAccounts(
            store: accounts,
            forget: { driver in
                guard let endpoint = redis.endpoint else { return }
                await Self.removeKeys(of: driver, at: endpoint)
            })
    }

    func signOut(_ driver: DriverID) async throws -> Int? { try await accounts.signOut(driver, at: .now) }

    func erase(_ driver: DriverID) async throws -> DriverErasure? {
        guard let receipt = try await accounts.erase(driver, at: .now) else { return nil }
        return DriverErasure(receipt: receipt, isInWAL: await !accounts.finishRemoval())
    }

    func missing(_ erasures: [RecordedErasure]) async throws -> MissingErasures { try await accounts.missing(erasures) }

    func repeatErasures(_ missing: MissingErasures) async throws -> Bool {
        let repeated = try await accounts.repeatErasures(missing.all, at: .now)
        return repeated.drivers.isEmpty ? false : await !accounts.finishRemoval()
    }

    private static func removeKeys(of driver: DriverID, at endpoint: RedisEndpoint) async {
        do {
            let loops = try EventLoopGroup(count: 1)
            let result: Result<Void, any Error>
            do {
                result = .success(try await RedisRateLimiter.removeKeys(of: driver, at: endpoint, on: loops.loops[0]))
            } catch {
                result = .failure(error)
            }
            await loops.shutdown()
            try result.get()
        } catch {
            writeToStandardError(
                "warning: Redis did not delete the driver's keys (\(error)); they expire within an hour.\n")
        }
    }
}
