// `dwell healthcheck`: the check for a container's HEALTHCHECK. With this command, the image needs no curl.

import ArgumentParser
import Sockets

struct HealthcheckCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "healthcheck",
        abstract: "Check whether a running server is alive or ready.",
        discussion: """
            Sends GET /healthz to the server on this machine that has these settings. Exits with status 0 if the \
            response is 200 within two seconds, otherwise with status 1 and the reason. With --ready, requests \
            /readyz: whether the database accepts writes and the server is not shutting down.

            EXAMPLES
              dwell healthcheck
              dwell healthcheck --ready
              dwell healthcheck --url http://127.0.0.1:9000/readyz
            """)

    @Option(help: "URL to request instead: http://host[:port][/path]. The settings are not read.")
    var url: String?

    @Flag(help: "Request /readyz instead of /healthz.")
    var ready = false

    @OptionGroup var settingsOptions: SettingsOptions

    func validate() throws {
        if let url, HealthRequest(url: url) == nil {
            throw ValidationError("--url must be http://host[:port][/path].")
        }
    }

    func run() async throws {
        let question: HealthRequest
        if let named = url.flatMap(HealthRequest.init(url:)) {
            question = named
        } else {
            let report = Configuration.report(from: ConfigurationInput(overrides: settingsOptions.overrides))
            guard let configuration = report.configuration else {
                for problem in report.problems { writeToStandardError("\(problem)\n") }
                throw ExitCode.failure
            }
            question = HealthRequest(http: configuration.http, path: ready ? "/readyz" : "/healthz")
        }
        do {
            let status = try await question.ask(within: .inSeconds(2))
            guard status != 200 else { return }
            writeToStandardError("\(question.address) answered \(status.map { String($0) } ?? "no HTTP")\n")
        } catch {
            writeToStandardError("\(question.address): \(error)\n")
        }
        throw ExitCode.failure
    }
}
