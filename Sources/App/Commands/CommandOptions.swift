// The options that several subcommands share. Each option sets one variable, and takes precedence over the environment
// and the environment file. The variable's declaration validates the value.
//
// `--database` selects an SQLite database, so it also clears DATABASE_URL, which would select PostgreSQL.

import ArgumentParser
import Foundation
import Identity

/// The options that select the environment file and the SQLite database. Every subcommand that reads settings has them,
/// except `push-test`, which has only `--env-file`.
struct SettingsOptions: ParsableArguments {
    @Option(
        name: .customLong("env-file"), help: "The environment file to read instead of ENV_FILE.", completion: .file())
    var environmentFile: String?

    @Option(help: "The SQLite database to use instead of DATABASE_PATH.", completion: .file())
    var database: String?

    var overrides: [String: String] {
        var overrides: [String: String] = [:]
        overrides[Variables.environmentFile.name] = environmentFile
        overrides[Variables.databasePath.name] = database
        if database != nil {
            for name in [Variables.databaseURL.name, Variables.databaseURL.fileVariableName] { overrides[name] = "" }
        }
        return overrides
    }

    /// Returns the configuration. If it is invalid, prints its errors and ends the command.
    func configuration() throws -> Configuration {
        try Configuration.report(from: ConfigurationInput(overrides: overrides)).required()
    }
}

/// The addresses to listen on.
struct ListenOptions: ParsableArguments {
    @Option(help: "Listen addresses instead of HTTP_HOST, comma-separated.")
    var host: String?

    @Option(help: "TCP port instead of HTTP_PORT; 0 selects a free port.")
    var port: Int?

    var overrides: [String: String] {
        var overrides: [String: String] = [:]
        overrides[Variables.hosts.name] = host
        overrides[Variables.port.name] = port.map { String($0) }
        return overrides
    }
}

extension ExitCode {
    /// The exit status for an invalid configuration (EX_CONFIG of sysexits.h). A restart with the same settings would
    /// fail in the same way.
    static let badConfiguration = ExitCode(78)
}

extension ConfigurationReport {
    /// Returns the configuration. If there is no valid configuration, prints every problem to standard error and ends
    /// the command.
    func required() throws -> Configuration {
        for warning in warnings { writeToStandardError("warning: \(warning)\n") }
        if let configuration { return configuration }
        for problem in problems { writeToStandardError("\(problem)\n") }
        throw ExitCode.badConfiguration
    }
}

extension TokenConfiguration {
    /// Returns the existing signing key. Only `dwell serve` creates a missing key.
    ///
    /// - Throws: `ExitCode` if the key does not exist or cannot be read. The reason is printed to standard error.
    func requiredKey() throws -> SigningKey {
        let existing: SigningKey?
        do throws(SigningKeyError) {
            existing = try existingKey()
        } catch {
            writeToStandardError("\(error)\n")
            throw ExitCode.badConfiguration
        }
        if let existing { return existing }
        if case .generated(let file) = key {
            writeToStandardError(
                """
                There is no signing key: \(URL(fileURLWithPath: file.path).path) does not exist. The server creates it \
                at its first start. Run this command in the server's working directory, pass the server's database \
                with --database, or set JWT_SECRET to the server's value.

                """)
        }
        throw ExitCode.badConfiguration
    }
}

func writeToStandardError(_ text: String) {
    FileHandle.standardError.write(Data(text.utf8))
}
