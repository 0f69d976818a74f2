// `dwell backup`, `dwell restore` and `dwell check`.

import ArgumentParser
import Engine
import Foundation
import JourneyModel
import SQLiteStore
import Simulation
import StructuredLogging

struct BackupCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "backup",
        abstract: "Back up the database to a file, also while a server runs.",
        discussion: """
            Copies one consistent snapshot with everything that was acknowledged before the command began. The copy \
            is checked (integrity, references, the row count of every table) and synced to disk before it gets its \
            final name. It contains personal data, so only its owner can read it; keep it that way. A signing key \
            that the server created beside its database is not in it. The database records the time of the backup \
            for metrics and the operator page.

            EXAMPLES
              dwell backup /var/backups/dwell-$(date +%F).sqlite3
            """)

    @Argument(help: "The file to create.", completion: .file())
    var file: String

    @Flag(help: "Replace an existing file.")
    var force = false

    @OptionGroup var settingsOptions: SettingsOptions

    func run() async throws {
        let path = try settingsOptions.configuration().database.file(
            insteadOf: "Back it up with PostgreSQL's own tools, pg_basebackup or pg_dump: docs/several-servers.md.")
        try runMaintenance("pages") { progress throws(MaintenanceRefusal) in
            try DatabaseBackup.make(of: path, to: file, replacing: force, progress)
        }
        print("\(file): a copy of \(path), verified")
        do {
            try DatabaseBackup.record(file, of: path, at: .now)
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
            Shows the number of events and drivers in the backup and in the database. Fails if a server has the \
            database open, or if the file is not a complete Dwell database. If the backup has fewer events or \
            drivers, or if a newer version's database does not show which drivers were deleted after the backup, asks \
            for confirmation; without a terminal, --yes is required.

            The backup is copied and checked, then replaces the database atomically; the old database is kept beside \
            it. The server migrates an older schema at its next start. Rate limits in Redis are not restored.

            Drivers who were deleted after the backup was taken are restored too. The command prints how many there \
            are; delete them again with dwell driver repeat-erasures.

            EXAMPLES
              dwell restore /var/backups/dwell-2026-11-20.sqlite3
              dwell restore --yes /var/backups/dwell-2026-11-20.sqlite3
            """)

    @Argument(help: "The backup.", completion: .file())
    var file: String

    @Flag(help: "Restore without confirmation, even if events, drivers or deletions are lost.")
    var yes = false

    @OptionGroup var settingsOptions: SettingsOptions

    func run() async throws {
        let path = try settingsOptions.configuration().database.file(
            insteadOf: "Restore it with PostgreSQL's own tools, pg_restore or a base backup: docs/several-servers.md.")
        let plan = try refusing { () throws(MaintenanceRefusal) in try DatabaseBackup.planRestore(of: file, to: path) }
        print(Self.text(plan, file: file, path: path))
        if let loss = plan.loss { try confirm("\(loss) Restore anyway?", yes: yes) }
        let stamp = timestamp(millisecondsSince1970()).filter { $0 != ":" && $0 != "-" }
        let old = try runMaintenance("pages") { progress throws(MaintenanceRefusal) in
            try DatabaseBackup.restore(file, to: path, stamp: stamp, progress)
        }
        print("\(path): restored from \(file)" + (old.map { "; the previous database is now \($0)" } ?? ""))
        if let old, let instruction = Self.instruction(plan, old: old) { print(instruction) }
    }

    /// Returns the instruction for deleting again the drivers who were deleted after the backup. A restore brings these
    /// drivers back. Returns nil if no driver was deleted after the backup.
    ///
    /// If this binary cannot read the previous database, the deletions after the backup are unknown. In this case, the
    /// instruction also says where to get the list of deletions.
    ///
    /// - Parameter old: the path of the previous database. It contains the records of the deletions, unless it is
    ///   damaged.
    static func instruction(_ plan: RestorePlan, old: String) -> String? {
        guard let undone = plan.undoneErasures else {
            guard case .ofAnotherVersion = plan.current else {
                return """
                    drivers deleted after the backup was taken are unknown, because the previous database is damaged; \
                    before the server starts, delete them again from a list that dwell driver erasures printed: \
                    dwell driver repeat-erasures --from LIST
                    """
            }
            return """
                drivers deleted after the backup was taken are unknown; before the server starts, with the newer version: \
                dwell driver erasures --database \(old) > FILE; then with this version: \
                dwell driver repeat-erasures --from FILE
                """
        }
        guard undone > 0 else { return nil }
        return """
            \(DriverCount.text(undone)) deleted after the backup was taken; before the server starts: \
            dwell driver repeat-erasures --from \(old)
            """
    }

    /// Returns two lines: the first describes the backup, the second the existing database.
    static func text(_ plan: RestorePlan, file: String, path: String) -> String {
        let current =
            switch plan.current {
            case .missing: "none"
            case .unreadable(let reason), .ofAnotherVersion(let reason): "cannot be read: \(reason)"
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
            Runs SQLite's integrity check, follows every reference between tables, and searches for every event's \
            idempotency key: the search must find the event, and no second event of the driver with the same key. \
            Then folds every driver's events again and compares the results with the stored verdicts and journeys. \
            On PostgreSQL, checks the references between the tables and the positions of events, then the \
            journeys; pg_amcheck checks PostgreSQL's files. Changes nothing, and works with or without a running \
            server. If anything differs, prints the first divergences and exits with status 1.

            EXAMPLES
              dwell check
              dwell check --database backup.sqlite3
            """)

    @OptionGroup var settingsOptions: SettingsOptions

    func run() async throws {
        try await Self.run(try settingsOptions.configuration())
    }

    static func run(_ configuration: Configuration) async throws {
        let report =
            switch configuration.database {
            case .sqlite(let path): try check(path)
            case .postgres: try await check(configuration)
            }
        print("\(configuration.database): \(report.events) events of \(DriverCount.text(report.drivers)) folded")
        if report.refolding > 0 {
            print(
                "\(DriverCount.text(report.refolding)) not checked: a refold is in progress (to complete it, start the "
                    + "server or run dwell refold)")
        }
        if report.erasing > 0 {
            print(
                "\(DriverCount.text(report.erasing)) not completely deleted: the deletion is in progress (to complete it, start "
                    + "the server)")
        }
        guard !report.problems.isEmpty else { return print("no divergence") }
        for problem in report.problems { print(problem) }
        throw ExitCode.failure
    }

    private static func check(_ path: String) throws -> JourneyCheckReport {
        let found = try runMaintenance("events") { progress throws(MaintenanceRefusal) in
            let check = try DatabaseCheck(path: path)
            defer { check.close() }
            return try check.run(progress)
        }
        var report = JourneyCheckReport()
        (report.drivers, report.events, report.problems) = (found.drivers, found.events, found.problems)
        (report.refolding, report.erasing) = (found.refolding, found.erasing)
        return report
    }

    private static func check(_ configuration: Configuration) async throws -> JourneyCheckReport {
        let output = ProgressOutput(unit: "events")
        defer { output.end() }
        return try await changing(configuration) { stores, _ in
            try await stores.journeyCheck?.check { done, total in
                output.show(DeliveryProgress(delivered: done, total: total))
            } ?? JourneyCheckReport()
        }
    }
}

/// Runs `body` and shows its progress on standard error. If `body` throws a refusal, prints the reason on standard
/// error and fails the command.
private func runMaintenance<Outcome>(
    _ unit: String, _ body: ((MaintenanceProgress) -> Void) throws(MaintenanceRefusal) -> Outcome
) throws -> Outcome {
    let output = ProgressOutput(unit: unit)
    return try refusing { () throws(MaintenanceRefusal) in
        defer { output.end() }
        return try body { output.show(DeliveryProgress(delivered: $0.done, total: $0.total)) }
    }
}

/// Runs `body`. If `body` throws a refusal, prints the reason on standard error and fails the command.
private func refusing<Outcome>(_ body: () throws(MaintenanceRefusal) -> Outcome) throws -> Outcome {
    do throws(MaintenanceRefusal) {
        return try body()
    } catch {
        writeToStandardError("\(error)\n")
        throw ExitCode.failure
    }
}
