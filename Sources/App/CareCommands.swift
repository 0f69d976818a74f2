// `dwell backup`, `dwell restore` and `dwell check`.

import ArgumentParser
import Foundation
import SQLiteStore
import Simulation
import Telemetry

struct BackupCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "backup",
        abstract: "Copy the database to a file, beside a running server.",
        discussion: """
            One consistent snapshot: all that was acknowledged before the command began is in it. The copy is checked \
            (integrity, foreign keys, the rows of every table), synced, and gets its name only then. It holds \
            everything that the database holds, so it is readable by its owner alone; keep it so. The key that the \
            server made beside its database, if it did, is not in it.

            EXAMPLES
              dwell backup /var/backups/dwell-$(date +%F).sqlite3
            """)

    @Argument(help: "The file to make.", completion: .file())
    var file: String

    @Flag(help: "Replace the file when it is there.")
    var force = false

    @OptionGroup var settingsOptions: SettingsOptions

    func run() async throws {
        let path = try Configuration.report(from: ConfigurationInput(overrides: settingsOptions.overrides)).required()
            .databasePath
        try carefully("pages") { progress throws(CareRefusal) in
            try DatabaseBackup.make(of: path, to: file, replacing: force, progress)
        }
        print("\(file): a copy of \(path), verified")
    }
}

struct RestoreCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "restore",
        abstract: "Put a backup in the place of the database.",
        discussion: """
            Refuses while a server has the database open. The backup is copied and checked first; then it takes the \
            database's place at once, and the old database is kept beside it. The server migrates it at its next \
            start, should it be of an older version. Rate limits in a Redis know nothing of it.

            EXAMPLES
              dwell restore /var/backups/dwell-2026-11-20.sqlite3
            """)

    @Argument(help: "The backup.", completion: .file())
    var file: String

    @OptionGroup var settingsOptions: SettingsOptions

    func run() async throws {
        let path = try Configuration.report(from: ConfigurationInput(overrides: settingsOptions.overrides)).required()
            .databasePath
        let stamp = timestamp(millisecondsSince1970()).filter { $0 != ":" && $0 != "-" }
        let old = try carefully("pages") { progress throws(CareRefusal) in
            try DatabaseBackup.restore(file, to: path, stamp: stamp, progress)
        }
        print("\(path): restored from \(file)" + (old.map { "; what was there is now \($0)" } ?? ""))
    }
}

struct CheckCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "check",
        abstract: "Check the database: its file, and every journey against its events.",
        discussion: """
            SQLite's integrity check, foreign keys, and the fold of every driver's events, computed anew and compared \
            with the verdicts and journeys that are stored. Reads only, beside a running server or without one. Ends \
            with status 1 and the first divergences when something is not as it should be.

            EXAMPLES
              dwell check
              dwell check --database backup.sqlite3
            """)

    @OptionGroup var settingsOptions: SettingsOptions

    func run() async throws {
        let path = try Configuration.report(from: ConfigurationInput(overrides: settingsOptions.overrides)).required()
            .databasePath
        let report = try carefully("events") { progress throws(CareRefusal) in
            let check = try DatabaseCheck(path: path)
            defer { check.close() }
            return try check.run(progress)
        }
        print("\(path): \(report.events) events of \(report.drivers) drivers folded")
        guard !report.problems.isEmpty else { return print("no divergence") }
        for problem in report.problems { print(problem) }
        throw ExitCode.failure
    }
}

/// Runs it with its progress on standard error; what it refuses is told there, and the command fails.
private func carefully<Outcome>(
    _ unit: String, _ body: ((CareProgress) -> Void) throws(CareRefusal) -> Outcome
) throws -> Outcome {
    let output = ProgressOutput(unit: unit)
    do throws(CareRefusal) {
        let outcome = try body { output.show(DeliveryProgress(delivered: $0.done, total: $0.total)) }
        output.end()
        return outcome
    } catch {
        output.end()
        writeToStandardError("\(error)\n")
        throw ExitCode.failure
    }
}
