// `dwell serve`: runs the server.

import ArgumentParser
import HTTPServer
import Logging
import SQLiteStore
import StructuredLogging

struct ServeCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "serve", abstract: "Run the server until SIGTERM or SIGINT.",
        discussion: """
            The first SIGTERM or SIGINT starts a graceful shutdown: the server accepts no new connections, completes \
            open requests, and exits with status 0 within SHUTDOWN_TIMEOUT_SECONDS; this also works while the server \
            is starting. A second signal ends the process immediately with status 128 plus the signal's number. \
            SIGHUP reloads the environment file.
            """)

    /// The message of the log line for each invalid setting.
    static let settingNotAllowed = "invalid setting"

    @OptionGroup var listenOptions: ListenOptions
    @OptionGroup var settingsOptions: SettingsOptions

    func run() async throws {
        let signals = SignalSource()
        signals.start()
        let input = ConfigurationInput(overrides: settingsOptions.overrides.merging(listenOptions.overrides) { $1 })
        let report = Configuration.report(from: input)
        let logger = report.log.logger(label: "dwell")
        signals.log(to: logger)
        report.unknown.log(to: logger)
        guard var configuration = report.configuration else {
            for problem in report.problems {
                logger.critical(
                    "\(Self.settingNotAllowed)", metadata: ["variable": "\(problem.variable)", "detail": "\(problem)"])
            }
            throw ExitCode.badConfiguration
        }
        configuration.http.connectionsMax = DescriptorLimit.raise(
            forConnections: configuration.http.connectionsMax, logger)
        do {
            try await Wiring(configuration, report: report, logger: logger).run(
                input, hadFile: report.hasFile, signals: signals)
        } catch {
            var metadata: Logger.Metadata = ["reason": "\(error)", "exit_status": .number(1)]
            if let error = error as? CannotListen, let hint = PortHolder.hint(about: error) {
                metadata["hint"] = "\(hint)"
            }
            logger.critical("server cannot run", metadata: metadata)
            throw ExitCode.failure
        }
    }
}
