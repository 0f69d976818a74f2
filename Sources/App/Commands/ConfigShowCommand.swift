// `dwell config show`: shows the settings in force in the running server.

import ArgumentParser
import Foundation

struct ConfigShowCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "show",
        abstract: "Show the settings in force on the running server.",
        discussion: """
            Sends GET /ops/config to the server on this machine that has these settings, with OPS_TOKEN or, if that \
            is not set, a short-lived token of the role ops. Shows the value of every setting in the running server, \
            settings that were changed in the file but need a restart, unknown names, and the result of the last \
            reload. To see what the next start would read, use `dwell check-config`. Exits with status 1 when no \
            server responds, or when the last reload failed or left a change without effect.

            EXAMPLES
              dwell config show
              dwell config show --json | jq '.settings[] | select(.needs_restart)'
            """)

    @Flag(help: "Print the server's JSON instead of a table.")
    var json = false

    @OptionGroup var settingsOptions: SettingsOptions

    func run() async throws {
        let input = ConfigurationInput(overrides: settingsOptions.overrides)
        // Do not require a valid configuration, because the environment file may have become invalid while the server
        // runs. The partial configuration is enough to find the server.
        let configuration = Configuration.report(from: input).partial
        let body: [UInt8]
        do {
            body = try await RunningServer(configuration).get("/ops/config")
        } catch let exit as ExitCode {
            // Print nothing: the code that threw `exit` has already printed the reason.
            throw exit
        } catch {
            writeToStandardError("\(error)\n")
            throw ExitCode.failure
        }
        let decoder = JSONDecoder()
        decoder.keyDecodingStrategy = .convertFromSnakeCase
        guard let shown = try? decoder.decode(ShownSettings.self, from: Data(body)) else {
            writeToStandardError("cannot decode the server's response: is it another version?\n")
            throw ExitCode.failure
        }
        print(json ? String(decoding: body, as: UTF8.self) : shown.text)
        if !shown.isWell { throw ExitCode.failure }
    }
}

/// The response of `GET /ops/config`.
struct ShownSettings: Decodable {
    struct Setting: Decodable {
        var name: String
        var value: String
        var source: String
        var needsRestart: Bool?
    }

    struct Reload: Decodable {
        var loadedAt: String
        var lastAttemptAt: String?
        var isGood: Bool
        var problems: [String]
        var needsRestart: [String]
        var unknown: [Unknown]
    }

    struct Unknown: Decodable {
        var name: String
        var nearest: String?
    }

    var instance: String
    var version: String
    var startedAt: String
    var settingsVersion: String
    var settingsReload: Reload
    var settings: [Setting]

    var isWell: Bool {
        settingsReload.isGood && settingsReload.needsRestart.isEmpty && settingsReload.unknown.isEmpty
    }

    var text: String {
        let rows =
            [["VARIABLE", "VALUE", "SOURCE"]]
            + settings.map { setting in
                [
                    setting.name, setting.value,
                    setting.source + (setting.needsRestart == true ? "  needs a restart" : ""),
                ]
            }
        let widths = (0..<2).map { column in rows.map { $0[column].count }.max() ?? 0 }
        let table = rows.map { row in
            zip(row, widths).map { $0 + String(repeating: " ", count: $1 - $0.count) }.joined(separator: "  ")
                + "  " + row[2]
        }
        return (table + ["", summary] + notes).joined(separator: "\n")
    }

    private var summary: String {
        "\(instance), version \(version), started \(startedAt), settings \(settingsVersion) read \(settingsReload.loadedAt)"
    }

    private var notes: [String] {
        var notes: [String] = []
        if let at = settingsReload.lastAttemptAt {
            notes.append("last reload \(at): \(settingsReload.isGood ? "good" : "failed")")
        }
        notes += settingsReload.problems
        if !settingsReload.needsRestart.isEmpty {
            notes.append("needs a restart: \(settingsReload.needsRestart.joined(separator: ", "))")
        }
        notes += settingsReload.unknown.map { unknown in
            "unknown: \(unknown.name)" + (unknown.nearest.map { "; did you mean \($0)?" } ?? "")
        }
        return notes
    }
}
