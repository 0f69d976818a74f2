// `dwell driver erasures` and `dwell driver repeat-erasures`: a restore brings deleted drivers back, so their
// deletions must be repeated.

import ArgumentParser
import Identity
import JourneyModel
import SQLiteStore

struct DriverErasuresCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "erasures",
        abstract: "List deletions, for repeating them after a restore.",
        discussion: """
            The first line says how many follow, so that a list that was cut is refused later. Then one line each: the time, the digest of the driver's id under the signing key, and the receipt. It names \
            nobody to a reader without the key, so it may be kept longer than any backup. Keep one elsewhere, newer \
            than your backups: when the disk is lost, it is all that knows who was deleted since.

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
        let path = try Configuration.report(from: ConfigurationInput(overrides: settingsOptions.overrides)).required()
            .databasePath
        let first = since.flatMap(RFC3339.moment(from:))
        let listed = try erasures(path).filter { erasure in first.map { erasure.at >= $0 } ?? true }
        print(([ErasureRecords.heading(count: listed.count)] + listed.map(\.line)).joined(separator: "\n"))
    }
}

struct DriverRepeatErasuresCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "repeat-erasures",
        abstract: "Repeat the deletions made after a backup was taken.",
        discussion: """
            To be run after a restore and before the server starts. FILE is the database that the restore set aside, or a \
            list that dwell driver erasures printed. Shows the drivers that FILE has as deleted and that are in the \
            database again, asks, and deletes them with their old receipts. Run twice, it finds nothing. It needs the \
            signing key with which they were deleted.

            EXAMPLES
              dwell driver repeat-erasures --from dwell.sqlite3.before-restore-20261120T100000Z
              dwell driver repeat-erasures --from /var/backups/dwell-erasures.txt --yes
            """)

    @Option(
        help: ArgumentHelp("The database that was set aside, or a list of deletions.", valueName: "file"),
        completion: .file())
    var from: String

    @Flag(help: "Skip the confirmation.")
    var yes = false

    @OptionGroup var settingsOptions: SettingsOptions

    func run() async throws {
        let recorded = try erasures(from)
        try await changing(settingsOptions) { accounts, store, now in
            let missing = try await accounts.missing(recorded)
            for (driver, erasure) in missing.drivers {
                print("\(escaped(driver.rawValue))  deleted \(RFC3339.text(of: erasure.at))  \(erasure.receipt ?? "-")")
            }
            if !missing.drivers.isEmpty {
                try confirm("Delete \(DriverCount.text(missing.drivers.count)) again?", yes: yes)
            }
            if !missing.drivers.isEmpty || !missing.withoutDriver.isEmpty {
                try await accounts.repeat(missing, at: now)
                await finishRemoval(store)
            }
            print(
                """
                \(recorded.count) deletion\(recorded.count == 1 ? "" : "s") in \(from): \(DriverCount.text(missing.drivers.count)) deleted again, \
                \(missing.withoutDriver.count) only recorded, because nothing is stored of them
                """)
        }
    }
}

/// `1 driver`, `2 drivers`.
enum DriverCount {
    static func text(_ count: Int) -> String { "\(count) driver\(count == 1 ? "" : "s")" }
}

private func erasures(_ path: String) throws -> [RecordedErasure] {
    do throws(RecordsUnreadable) {
        return try ErasureRecords.read(path)
    } catch {
        writeToStandardError("\(path): \(error)\n")
        throw ExitCode.failure
    }
}
