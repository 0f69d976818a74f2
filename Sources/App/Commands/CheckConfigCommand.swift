// `dwell check-config`: reads the settings in the same way as `dwell serve`, and prints them.

import ArgumentParser
import Foundation

struct CheckConfigCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "check-config",
        abstract: "Show every setting with its value, source and range.",
        discussion: """
            Reads the settings as the server does, with the same options. Lists every problem and exits with status \
            1 if there is one. Secrets are shown as set or not set.

            EXAMPLES
              dwell check-config
              dwell check-config --json | jq '.settings[] | select(.source != "default")'
              dwell check-config --example > .env
            """)

    @OptionGroup var listenOptions: ListenOptions
    @OptionGroup var settingsOptions: SettingsOptions

    @Flag(help: "Print JSON instead of a table.")
    var json = false

    @Flag(help: "Print an environment file with every default instead, like ENV.example.")
    var example = false

    func validate() throws {
        if json && example { throw ValidationError("--json and --example cannot be combined.") }
    }

    func run() throws {
        if example { return print(EnvironmentExample.text, terminator: "") }
        let overrides = settingsOptions.overrides.merging(listenOptions.overrides) { $1 }
        let report = Configuration.report(from: ConfigurationInput(overrides: overrides))
        if json {
            print(try report.json())
        } else {
            print(report.table())
            for warning in report.warnings { writeToStandardError("warning: \(warning)\n") }
            for problem in report.problems { writeToStandardError("\(problem)\n") }
        }
        if !report.problems.isEmpty { throw ExitCode.failure }
    }
}
