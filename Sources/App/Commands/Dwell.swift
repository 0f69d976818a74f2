// The command `dwell` and its subcommands.

import ArgumentParser

@main
struct Dwell: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "dwell",
        abstract: "A server to which native apps post location-session events.",
        discussion: """
            Settings are environment variables. ENV.example lists each with its default and range. Variables that \
            are not set in the environment are read from the file that ENV_FILE names (.env).

            EXAMPLES
              dwell serve                    serve on 127.0.0.1:8080
              HTTP_PORT=9000 dwell serve     on another port
              dwell check-config             every setting, its source and range
              dwell token --driver jonas     an access token to try it with

            EXIT STATUS
              0 success, also after --help; 1 failure; 64 usage error; 78 invalid settings
            """,
        version: version,
        subcommands: [
            ServeCommand.self, CheckConfigCommand.self, ConfigCommand.self, TokenCommand.self, MigrateCommand.self,
            HealthcheckCommand.self, ExplainCommand.self, BackupCommand.self,
            RestoreCommand.self, CheckCommand.self, RefoldCommand.self, SimulateCommand.self, AuditCommand.self,
            VerifyErasedCommand.self, DriverCommand.self, PurchasesCommand.self, PushTestCommand.self,
        ])

    /// Runs the command. If the subcommand is unknown, prints the list of subcommands.
    static func main() async {
        // This must be the first statement of the process, because it holds signals until the server can handle them.
        SignalSource.hold()
        FileModes.keepToOwner()
        let names = configuration.subcommands.compactMap { $0.configuration.commandName }
        let word = CommandLine.arguments.dropFirst().first ?? "help"
        if !word.hasPrefix("-"), word != "help", !names.contains(word) {
            let list = names.joined(separator: ", ")
            exit(withError: ValidationError("Unknown command '\(word)'. Commands: \(list)."))
        }
        if word != "serve" { SignalSource.release() }
        do {
            var command = try parseAsRoot()
            if var command = command as? any AsyncParsableCommand {
                try await command.run()
            } else {
                try command.run()
            }
        } catch {
            // A request for help or for the version throws an error with the status 0. Print its text here, because
            // `exit` would end the process before the output is checked below.
            guard exitCode(for: error) == .success else { exit(withError: error) }
            print(fullMessage(for: error, columns: nil))
        }
        // `print` ignores errors. Without this check, the command would end with status 0 even if its output is
        // incomplete, for example because the disk is full.
        if let reason = StandardOutput.failureToWrite() {
            writeToStandardError("the output could not be written completely: \(reason)\n")
            exit(withError: ExitCode.failure)
        }
    }
}
