// `dwell driver erasures` and `dwell driver repeat-erasures`. Restoring a backup brings back drivers who were deleted
// after the backup, so their deletions must be repeated.

import ArgumentParser
import Identity
import JourneyModel
import SQLiteStore
import SharedTables

struct DriverErasuresCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "erasures",
        abstract: "List deletions, for repeating them after a restore.",
        discussion: """
            The first line has the number of entries, so that a truncated list is detected. Each further line has \
            the time, the keyed hash of the driver's id and the receipt. Without the signing key the list identifies \
            nobody, so it may be kept longer than the backups. Keep a copy on another machine that is newer than \
            your backups: when the disk is lost, it is the only record of the drivers deleted since the last backup.

            EXAMPLES
              dwell driver erasures > /var/backups/dwell-erasures.txt
              dwell driver erasures --database dwell.sqlite3.before-restore-20261120T100000Z
            """)

    @Option(help: ArgumentHelp("Only deletions at or after this time (RFC 3339).", valueName: "time"))
    var since: String?

    @OptionGroup var settingsOptions: SettingsOptions

    func validate() throws {
        if let since, RFC3339.moment(from: since) == nil {
            throw ValidationError("--since must be an RFC 3339 time, such as 2026-11-20T10:00:00Z.")
        }
    }

    func run() async throws {
        let first = since.flatMap(RFC3339.moment(from:))
        let recorded = try await recorded(settingsOptions.configuration())
        let listed = recorded.filter { erasure in first.map { erasure.at >= $0 } ?? true }
        print(([ErasureRecords.heading(count: listed.count)] + listed.map(\.line)).joined(separator: "\n"))
    }

    private func recorded(_ configuration: Configuration) async throws -> [RecordedErasure] {
        switch configuration.database {
        case .sqlite(let path):
            try readingErasures(path) { () throws(RecordsUnreadable) in try ErasureRecords.read(database: path) }
        case .postgres:
            try await changing(configuration) { stores, _ in
                try await stores.accounts.read { db in try ErasureRows.all(db) }
            }
        }
    }
}

struct DriverRepeatErasuresCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "repeat-erasures",
        abstract: "Repeat the deletions made after a backup was taken.",
        discussion: """
            Run this after a restore, preferably before the server starts. FILE is the database that the restore moved \
            aside, or a list printed by dwell driver erasures. Shows the drivers that FILE lists as deleted but that are \
            in the database, asks for confirmation, and deletes them with their original receipts. Running it again \
            changes nothing. It requires the signing key in use when they were deleted.

            EXAMPLES
              dwell driver repeat-erasures --from dwell.sqlite3.before-restore-20261120T100000Z
              dwell driver repeat-erasures --from /var/backups/dwell-erasures.txt --yes
            """)

    @Option(
        help: ArgumentHelp("The database that a restore moved aside, or a list of deletions.", valueName: "file"),
        completion: .file())
    var from: String

    @Flag(help: "Skip the confirmation.")
    var yes = false

    @OptionGroup var settingsOptions: SettingsOptions

    func run() async throws {
        let recorded = try readingErasures(from) { () throws(RecordsUnreadable) in try ErasureRecords.read(from) }
        try await changingDrivers(settingsOptions) { changes in
            let missing = try await changes.missing(recorded)
            for (driver, erasure) in missing.drivers {
                print("\(escaped(driver.rawValue))  deleted \(RFC3339.text(of: erasure.at))  \(erasure.receipt ?? "-")")
            }
            if !missing.drivers.isEmpty {
                try confirm("Delete \(DriverCount.text(missing.drivers.count)) again?", yes: yes)
            }
            if try await changes.repeatErasures(missing) { warnAboutWAL() }
            print(
                """
                \(recorded.count) deletion\(recorded.count == 1 ? "" : "s") in \(from): \(DriverCount.text(missing.drivers.count)) deleted again, \
                \(missing.withoutDriver.count) only recorded, because no data of them is stored
                """)
        }
    }
}

/// Formats a number of drivers: `1 driver`, `2 drivers`.
enum DriverCount {
    static func text(_ count: Int) -> String { "\(count) driver\(count == 1 ? "" : "s")" }
}

private func readingErasures(_ path: String, _ body: () throws(RecordsUnreadable) -> [RecordedErasure]) throws
    -> [RecordedErasure]
{
    do throws(RecordsUnreadable) {
        return try body()
    } catch {
        writeToStandardError("\(path): \(error)\n")
        throw ExitCode.failure
    }
}
