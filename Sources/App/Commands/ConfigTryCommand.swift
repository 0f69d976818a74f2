// `dwell config try`: counts the recent sessions that would have ended differently with other time-outs.

import ArgumentParser
import Engine
import Foundation
import JourneyModel

struct ConfigTryCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "try",
        abstract: "Show how many recent sessions would have ended differently with other time-outs.",
        discussion: """
            Folds the stored events of the last week again in memory with the time-outs in FILE, and compares how each \
            session ended. FILE is an environment file or a file of rules, as for SETTINGS_RULES_FILE. A time-out that \
            an environment file does not set stays as it was stored with each event. Rules are evaluated over the \
            configured settings at the time when each event was received, with the app version of the driver's last \
            registered device. Changes nothing, and works with or without a running server.

            Only NATIVE_GRACE_PERIOD_SECONDS and NATIVE_HARD_TIMEOUT_SECONDS can be tried: the phone applies the other \
            settings before it sends an event. With other time-outs a phone might also have sent other events, so \
            take the counts as an estimate.

            EXAMPLES
              dwell config try longer-grace.env
              dwell config try longer-grace.env --since '12 hours'
              dwell config try new-rules.json
            """)

    @Argument(help: "An environment file or a file of rules with the settings to try.", completion: .file())
    var file: String

    @Option(
        help: ArgumentHelp("Events since this time: a number of days or hours, or an RFC 3339 time.", valueName: "time")
    )
    var since = "7 days"

    @OptionGroup var settingsOptions: SettingsOptions

    func validate() throws {
        guard Self.start(since, now: .now) != nil else {
            throw ValidationError("--since must be such as '7 days', '12 hours' or 2026-11-01T00:00:00Z.")
        }
    }

    /// Parses an RFC 3339 time, or a duration such as `7 days`, which is subtracted from `now`. Returns nil for any
    /// other text.
    static func start(_ text: String, now: Moment) -> Moment? {
        if let moment = RFC3339.moment(from: text) { return moment }
        let words = text.split(separator: " ")
        guard words.count == 2, words[0].utf8.allSatisfy(\.isASCIIDigit), let count = Int(words[0]),
            (1...10_000).contains(count)
        else { return nil }
        switch words[1] {
        case "hour", "hours": return now.advanced(bySeconds: -count * 3600)
        case "day", "days": return now.advanced(bySeconds: -count * 86_400)
        default: return nil
        }
    }

    func run() async throws {
        let configuration = try settingsOptions.configuration()
        let now = Moment.now
        guard let start = Self.start(since, now: now) else { throw ExitCode.validationFailure }
        let durations = try durations(configuration.settings)
        let outcome = try await RefoldTrialRun.outcome(.settings(since: start, durations), now: now, configuration)
        for line in Self.lines(of: outcome, since: start) { print(line) }
    }

    /// Reads `file`, which is an environment file or a file of settings rules. Returns a function that gives the
    /// time-outs for an event. If the file cannot be used, prints the reasons and fails the command.
    private func durations(_ configured: Settings) throws -> @Sendable (TrialEvent) -> TrialDurations {
        do {
            let text = try readTextFile(
                file, bytesMax: max(EnvironmentFile.fileBytesMax, SettingsRules.bytesMax), mayBePipe: true)
            guard text.first(where: { !$0.isWhitespace }) == "{" else {
                let durations = try Self.durations(in: text, configured)
                return { _ in durations }
            }
            let rules = try SettingsRules(reading: Array(text.utf8), base: configured)
            return { event in Self.durations(of: event, rules) }
        } catch let error as TextFileError {
            writeToStandardError("\(escaped(file)): \(error.reason)\n")
        } catch let error as SettingsRulesError {
            for problem in error.problems { writeToStandardError("\(escaped(file)): \(problem)\n") }
        } catch {
            writeToStandardError("\(escaped(file)): \(error)\n")
        }
        throw ExitCode.failure
    }

    static func durations(of event: TrialEvent, _ rules: SettingsRules) -> TrialDurations {
        let subject = SettingsSubject(
            driver: event.driver, appVersion: event.appVersion.flatMap { AppVersion($0) }, at: event.receivedAt)
        let settings = rules.choice(for: subject).settings(charger: event.chargerID).settings
        return TrialDurations(
            gracePeriodSeconds: settings.gracePeriodSeconds, hardTimeoutSeconds: settings.hardTimeoutSeconds)
    }

    struct UnusableSettings: Error, CustomStringConvertible {
        var description: String
    }

    /// Returns the time-outs that an environment file sets. `text` is its content.
    ///
    /// - Parameter configured: the server's own settings, which are used only to check the file. For example, a grace
    ///   period in the file may not exceed the server's hard timeout. The result contains only values from the file.
    static func durations(in text: String, _ configured: Settings) throws -> TrialDurations {
        let entries = EnvironmentFile(path: "", text: text, without: "").entries
        let settings: Settings
        do throws(Settings.Invalid) {
            settings = try Settings.make(over: configured) { variable in entries[variable]?.value }
        } catch {
            throw UnusableSettings(description: error.errors.map { "\($0)" }.joined(separator: "; "))
        }
        let durations = TrialDurations(
            gracePeriodSeconds: entries["NATIVE_GRACE_PERIOD_SECONDS"] != nil ? settings.gracePeriodSeconds : nil,
            hardTimeoutSeconds: entries["NATIVE_HARD_TIMEOUT_SECONDS"] != nil ? settings.hardTimeoutSeconds : nil)
        guard durations != TrialDurations(gracePeriodSeconds: nil, hardTimeoutSeconds: nil) else {
            throw UnusableSettings(
                description: """
                    sets neither NATIVE_GRACE_PERIOD_SECONDS nor NATIVE_HARD_TIMEOUT_SECONDS; stored events cannot \
                    show the effect of the other settings
                    """)
        }
        return durations
    }

    static func lines(of outcome: TrialOutcome, since start: Moment) -> [String] {
        let counts = outcome.counts
        let changed = counts.sessions.values.reduce(0, +)
        var lines = [
            """
            since \(RFC3339.text(of: start)): \(counts.drivers) drivers, \(counts.events) events folded; \
            \(changed) of \(counts.sessionsFolded) sessions would have ended differently
            """
        ]
        if outcome.refolding > 0 {
            lines.append("\(DriverCount.text(outcome.refolding)) left out: a refold is in progress")
        }
        return lines + RefoldText.table("sessions", counts.sessions, counts.sessionExamples)
    }
}
