// `dwell explain`: shows how the server processed each event of a driver or session, and why.

import ArgumentParser
import Engine
import Foundation
import JourneyModel
import SQLiteStore

struct ExplainCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "explain",
        abstract: "Show each event of a session, its verdict and why.",
        discussion: """
            Shows the journey's events in the order in which the server folds them, including the driver's earlier \
            events that led to the session: times, the verdict and its reason, the settings in force, and the state \
            before and after. Reads only the database, so it works with or without a running server. Metadata can \
            contain coordinates, so it is shown only with --metadata.

            EXAMPLES
              dwell explain --session 6c8f1f0a
              dwell explain --driver jonas --last 20
              dwell explain --database backup.sqlite3 --session 6c8f1f0a --json | jq '.events[].state'
            """)

    @Option(help: ArgumentHelp("The session to explain.", valueName: "id"))
    var session: String?

    @Option(help: ArgumentHelp("Explain the last events of this driver instead.", valueName: "id"))
    var driver: String?

    @Option(help: ArgumentHelp("Number of the driver's events, 1 to 10000 (default: 50).", valueName: "n"))
    var last: Int?

    @Flag(help: "Print JSON instead of text.")
    var json = false

    @Flag(help: "Include event metadata, which can contain coordinates.")
    var metadata = false

    @OptionGroup var settingsOptions: SettingsOptions

    private static let lastDefault = 50

    func validate() throws {
        guard (session == nil) != (driver == nil) else { throw ValidationError("Give either --session or --driver.") }
        if session != nil, last != nil { throw ValidationError("--last requires --driver.") }
        guard (1...EventRecords.eventsMax).contains(last ?? 1) else {
            throw ValidationError("--last must be a whole number from 1 to \(EventRecords.eventsMax).")
        }
    }

    func run() async throws {
        let input = ConfigurationInput(overrides: settingsOptions.overrides)
        let configuration = try Configuration.report(from: input).required()
        guard let events = try await events(configuration) else {
            let whose = session.map { "session \(escaped($0))" } ?? "driver \(escaped(driver ?? ""))"
            writeToStandardError("\(configuration.database) has no events of \(whose).\n")
            throw ExitCode.failure
        }
        if json {
            print(ExplanationJSON(showsMetadata: metadata).text(of: events, session: session))
        } else {
            let text = ExplanationText(isColored: Self.isColored, showsMetadata: metadata)
            print(text.lines(of: events, session: session).joined(separator: "\n"))
        }
    }

    private func events(_ configuration: Configuration) async throws -> RecordedEvents? {
        if case .sqlite(let path) = configuration.database { return try reading(path, read) }
        return try await changing(configuration) { stores, _ in
            guard let reader = stores.recordedEvents else { return nil }
            if let session {
                return try await reader.recordedEvents(ofSession: session, limit: EventRecords.eventsMax)
            }
            return try await reader.recordedEvents(of: DriverID(driver ?? ""), limit: last ?? Self.lastDefault)
        }
    }

    private func read(_ records: EventRecords) throws(RecordsUnreadable) -> RecordedEvents? {
        if let session { return try records.events(ofSession: session) }
        return try records.events(of: DriverID(driver ?? ""), last: last ?? Self.lastDefault)
    }

    /// Whether the output has colors (https://no-color.org).
    private static var isColored: Bool {
        let environment = ProcessInfo.processInfo.environment
        return isatty(STDOUT_FILENO) == 1 && (environment["NO_COLOR"] ?? "").isEmpty && environment["TERM"] != "dumb"
    }
}
