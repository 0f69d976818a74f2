// `dwell serve`.

import ArgumentParser

struct ServeCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "serve", abstract: "Serve until SIGTERM or SIGINT (the default).")

    @OptionGroup var listenOptions: ListenOptions
    @OptionGroup var settingsOptions: SettingsOptions

    func run() async throws {
        let overrides = settingsOptions.overrides.merging(listenOptions.overrides) { $1 }
        _ = try Configuration.report(from: ConfigurationInput(overrides: overrides)).required()
        writeToStandardError("serve is not wired yet\n")
        throw ExitCode.failure
    }
}
