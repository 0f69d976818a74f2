// `dwell migrate`.

import ArgumentParser
import Engine
import Foundation
import JourneyModel
import SQLiteStore
import Sockets
import StructuredLogging

struct MigrateCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "migrate", abstract: "Migrate the database to this version's schema.",
        discussion: """
            The server migrates at its start, too. Use this command to migrate beforehand, or to see which \
            migrations are pending.

            EXAMPLES
              dwell migrate --status
            """)

    @Flag(help: "Only show which migrations are applied; fails without a database.")
    var status = false

    @OptionGroup var settingsOptions: SettingsOptions

    func run() async throws {
        let input = ConfigurationInput(overrides: settingsOptions.overrides)
        let database = try Configuration.report(from: input).required().database
        do {
            switch database {
            case .sqlite(let path):
                if !status {
                    await (try SQLiteFile.open(path)).close()
                    OldFileHold.wait()
                }
                print(Self.table(try DatabaseOpening.status(path: path)))
            case .postgres(let configuration):
                let loops = try EventLoopGroup(count: 1)
                let result = await PostgresSchema.result(configuration, migrates: !status, loops: loops)
                await loops.shutdown()
                print(Self.table(try result.get()))
            }
        } catch {
            writeToStandardError("\(UnusableDatabase(database, error))\n")
            throw ExitCode.failure
        }
    }

    /// Returns one line per migration, with its number, its name, and the time at which it was applied.
    static func table(_ migrations: [MigrationStatus]) -> String {
        let width = migrations.map(\.name.count).max() ?? 0
        return migrations.map { migration in
            let number = String(migration.number)
            let when = migration.appliedAtMilliseconds.map {
                "applied \(RFC3339.text(of: Moment(millisecondsSinceEpoch: $0)))"
            }
            return String(repeating: "0", count: max(0, 4 - number.count)) + number
                + " \(migration.name)" + String(repeating: " ", count: width - migration.name.count)
                + "  \(when ?? "not applied")"
        }.joined(separator: "\n")
    }
}
