// The run of `dwell migrate --from sqlite`: connects the two databases, starts the transfer, and prints its progress
// and errors.

import ArgumentParser
import Postgres
import PostgresStore
import SQLiteStore
import SharedTables
import Simulation
import Sockets
import StructuredLogging

struct TransferRun {
    /// The path of the SQLite database.
    let path: String
    let target: PostgresConfiguration

    /// Runs the transfer until it is complete. Prints errors to standard error and fails the command.
    func run() async throws {
        let output = ProgressOutput(unit: "drivers")
        let loops = try EventLoopGroup(count: 1)
        let result: Result<Void, any Error>
        do {
            result = .success(try await transfer(on: loops.loops[0], output))
        } catch {
            result = .failure(error)
        }
        await loops.shutdown()
        do { try result.get() } catch {
            output.end()
            writeToStandardError("\(text(error))\n")
            throw ExitCode.failure
        }
    }

    private func transfer(on loop: EventLoop, _ output: ProgressOutput) async throws {
        let postgres = try await PostgresTransferTarget.open(
            target, on: loop, atMilliseconds: millisecondsSince1970())
        let show = { @Sendable (report: TransferReport) in
            switch report {
            case .copies(let done, let total):
                return output.show(DeliveryProgress(delivered: done, total: total))
            case .passed, .isDone: output.end()
            case .begins, .waits, .finishes: break
            }
            writeToStandardError("\(report)\n")
        }
        let transfer = DatabaseTransfer(
            open: { [path] in try SQLiteTransferSource.open(path) },
            lock: { [path] in try SQLiteTransferSource.lock(path) }, target: postgres, report: show)
        let result: Result<Void, any Error>
        do { result = .success(try await transfer.run()) } catch { result = .failure(error) }
        await postgres.close()
        try result.get()
    }

    private func text(_ error: any Error) -> String {
        switch error {
        case let refusal as TransferRefusal: "\(refusal)"
        case is PostgresError, is PostgresMigrationRefusal:
            "\(UnusableDatabase(.postgres(target), reason: "\(error)"))"
        default: "\(UnusableDatabase(.sqlite(path: path), error))"
        }
    }
}
