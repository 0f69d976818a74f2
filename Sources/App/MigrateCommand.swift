// `dwell migrate`.

import ArgumentParser

struct MigrateCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "migrate", abstract: "Bring the database to this version's schema.")

    @Flag(help: "Only show which migrations are applied and which are not.")
    var status = false

    @OptionGroup var settingsOptions: SettingsOptions

    func run() async throws {
        _ = try Configuration.report(from: ConfigurationInput(overrides: settingsOptions.overrides)).required()
        writeToStandardError("migrate is not wired yet\n")
        throw ExitCode.failure
    }
}
