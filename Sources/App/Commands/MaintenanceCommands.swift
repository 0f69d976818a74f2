// `dwell backup`, `dwell restore` and `dwell check`.

import ArgumentParser
import Foundation
import JourneyModel
import SQLiteStore
import Simulation
import Telemetry

struct BackupCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "backup",
        abstract: "Back up the database to a file, also while a server runs.",
        discussion: """
            One consistent snapshot with everything that was acknowledged before the command began. The copy is checked \
            (integrity, foreign keys, the rows of every table) and synced before it gets its name. It holds \
            everything that the database holds, so it is readable by its owner alone; keep it so. The key that the \
            server made beside its database, if it did, is not in it. The database remembers when the last backup was \
            made, for metrics and the operator's page.

            EXAMPLES
              dwell backup /var/backups/dwell-$(date +%F).sqlite3
            """)

    @Argument(help: "The file to create.", completion: .file())
    var file: String

    @Flag(help: "Replace an existing file.")
    var force = false

    @OptionGroup var settingsOptions: SettingsOptions

    func run() async throws {
        let path = try Configuration.report(from: ConfigurationInput(overrides: settingsOptions.overrides)).required()
            .databasePath
        try carefully("pages") { progress throws(MaintenanceRefusal) in
            try DatabaseBackup.make(of: path, to: file, replacing: force, progress)
        }
        print("\(file): a copy of \(path), verified")
        do {
            let now = Moment(millisecondsSinceEpoch: millisecondsSince1970())
            try DatabaseBackup.record(file, of: path, at: now)
        } catch {
            writeToStandardError("warning: the backup succeeded but was not recorded as the last one: \(error)\n")
        }
    }
}

struct RestoreCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "restore",
        abstract: "Replace the database with a backup.",
        discussion: """
            Shows how many events and drivers the backup and the database have. Refuses while a server has the database \
            open, and a file that is not a whole database of Dwell's. When the backup has fewer events or drivers, asks \
            first; without a terminal it wants --yes.

            The backup is copied and checked; then it takes the database's place at once, and the old database is kept \
            beside it. The server migrates it at its next start if it is of an older version. Limits in Redis are not \
            restored.

            Drivers who were deleted after the backup was taken are in it again. The restore says how many they are; dwell \
            driver repeat-erasures deletes them again.

            EXAMPLES
              dwell restore /var/backups/dwell-2026-11-20.sqlite3
              dwell restore --yes /var/backups/dwell-2026-11-20.sqlite3
            """)

    @Argument(help: "The backup.", completion: .file())
    var file: String

    @Flag(help: "Restore even if the backup has fewer events or drivers than the database.")
    var yes = false

    @OptionGroup var settingsOptions: SettingsOptions

    func run() async throws {
        let path = try Configuration.report(from: ConfigurationInput(overrides: settingsOptions.overrides)).required()
            .databasePath
        let plan = try refusing { () throws(MaintenanceRefusal) in try DatabaseBackup.planRestore(of: file, to: path) }
        print(Self.text(plan, file: file, path: path))
        if let loss = plan.loss { try confirm("\(loss) Restore anyway?", yes: yes) }
        let stamp = timestamp(millisecondsSince1970()).filter { $0 != ":" && $0 != "-" }
        let old = try carefully("pages") { progress throws(MaintenanceRefusal) in
            try DatabaseBackup.restore(file, to: path, stamp: stamp, progress)
        }
        print("\(path): restored from \(file)" + (old.map { "; the previous database is now \($0)" } ?? ""))
        if let old, plan.undoneErasures > 0 {
            print(
                """
                \(DriverCount.text(plan.undoneErasures)) deleted after the backup was taken; before the server starts: \
                dwell driver repeat-erasures --from \(old)
                """)
        }
    }

    /// Two lines, one for the backup and one for the database.
    static func text(_ plan: RestorePlan, file: String, path: String) -> String {
        let current =
            switch plan.current {
            case .missing: "none"
            case .unreadable(let reason): "cannot be read: \(reason)"
            case .foreign(let reason): reason
            case .holds(let contents): text(contents)
            }
        return "backup    \(file): \(text(plan.backup))\ndatabase  \(path): \(current)"
    }

    private static func text(_ contents: DatabaseContents) -> String {
        "\(contents.events) event\(contents.events == 1 ? "" : "s"), \(DriverCount.text(contents.drivers))"
            + (contents.lastReceivedAt.map { ", last event received \(RFC3339.text(of: $0))" } ?? "")
    }
}

struct CheckCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "check",
        abstract: "Check the database file, and every journey against its events.",
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
        let report = try carefully("events") { progress throws(MaintenanceRefusal) in
            let check = try DatabaseCheck(path: path)
            defer { check.close() }
            return try check.run(progress)
        }
        print("\(path): \(report.events) events of \(DriverCount.text(report.drivers)) folded")
        guard !report.problems.isEmpty else { return print("no divergence") }
        for problem in report.problems { print(problem) }
        throw ExitCode.failure
    }
}

/// Runs `body` with progress on standard error; a refusal is printed there, and the command fails.
private func carefully<Outcome>(
    _ unit: String, _ body: ((MaintenanceProgress) -> Void) throws(MaintenanceRefusal) -> Outcome
) throws -> Outcome {
    let output = ProgressOutput(unit: unit)
    return try refusing { () throws(MaintenanceRefusal) in
        defer { output.end() }
        return try body { output.show(DeliveryProgress(delivered: $0.done, total: $0.total)) }
    }
}

/// Writes a refusal to standard error and fails the command.
private func refusing<Outcome>(_ body: () throws(MaintenanceRefusal) -> Outcome) throws -> Outcome {
    do throws(MaintenanceRefusal) {
        return try body()
    } catch {
        writeToStandardError("\(error)\n")
        throw ExitCode.failure
    }
}
