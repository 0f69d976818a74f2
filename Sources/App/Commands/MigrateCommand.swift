// `dwell migrate`: migrates the database to this version's schema, or moves it from SQLite to PostgreSQL.

import ArgumentParser
import Engine
import Foundation
import JourneyModel
import SQLiteStore
import Sockets
import StructuredLogging

struct MigrateCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "migrate", abstract: "Migrate the database to this version's schema, or move it to PostgreSQL.",
        discussion: """
            The server migrates at its start, too. Use this command to migrate beforehand, or to see which \
            migrations are pending.

            With --from sqlite, copies the SQLite database to an empty PostgreSQL database, whose URL is in \
            DATABASE_URL or --to-file (--to shows the password to other users of the machine). The server may run \
            meanwhile. The command tells when to stop it, waits for that, copies what has changed since, and runs \
            dwell check on PostgreSQL. Servers do not start on PostgreSQL before the copy is complete. An \
            interrupted copy is continued when the command is run again. The SQLite database is not changed: do not \
            start a server on it again (docs/several-servers.md).

            EXAMPLES
              dwell migrate --status
              dwell migrate --from sqlite --to-file /etc/dwell/database-url
            """)

    enum Source: String, ExpressibleByArgument, CaseIterable {
        case sqlite
    }

    @Flag(help: "Only show which migrations are applied; fails without a database.")
    var status = false

    @Option(help: "Move the database at DATABASE_PATH to PostgreSQL.")
    var from: Source?

    @Option(help: "The URL of the PostgreSQL database, instead of DATABASE_URL.")
    var to: String?

    @Option(help: "A file with this URL, instead of DATABASE_URL_FILE.", completion: .file())
    var toFile: String?

    @Flag(inversion: .prefixedNo, help: "Check the PostgreSQL database at the end. Servers may start before.")
    var check = true

    @OptionGroup var settingsOptions: SettingsOptions

    func validate() throws {
        if from == nil, to != nil || toFile != nil { throw ValidationError("--to and --to-file need --from sqlite.") }
        if to != nil, toFile != nil { throw ValidationError("--to and --to-file exclude each other.") }
        if from != nil, status { throw ValidationError("--status and --from exclude each other.") }
    }

    func run() async throws {
        if from != nil { return try await transfer() }
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

    /// Copies the SQLite database to PostgreSQL. Reads the settings once without DATABASE_URL, to find the SQLite
    /// database, and once without DATABASE_PATH, to find PostgreSQL.
    ///
    /// The settings for PostgreSQL must be valid and contain a signing key, because the servers will start with these
    /// settings.
    private func transfer() async throws {
        let (url, urlFile) = (Variables.databaseURL.name, Variables.databaseURL.fileVariableName)
        let source = settingsOptions.overrides.merging([url: "", urlFile: ""]) { $1 }
        var target = settingsOptions.overrides.filter { $0.key != url && $0.key != urlFile }
        target[Variables.databasePath.name] = ""
        if to != nil || toFile != nil { (target[url], target[urlFile]) = (to ?? "", toFile ?? "") }
        let new = Configuration.report(from: ConfigurationInput(overrides: target))
        if case .sqlite = new.partial.database, new.problems.allSatisfy({ $0.variable == Variables.databasePath.name })
        {
            writeToStandardError("set DATABASE_URL, --to-file or --to: where is PostgreSQL?\n")
            throw ExitCode.badConfiguration
        }
        let configuration = try new.required()
        let old = Configuration.report(from: ConfigurationInput(overrides: source))
        for problem in old.problems where problem.variable == Variables.databasePath.name {
            writeToStandardError("\(problem)\n")
            throw ExitCode.badConfiguration
        }
        guard case .postgres(let postgres) = configuration.database, case .sqlite(let path) = old.partial.database
        else { return }
        try await TransferRun(path: path, target: postgres).run()
        print("\(configuration.database) is complete: servers may start with DATABASE_URL")
        if check { try await CheckCommand.run(configuration) }
    }

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
