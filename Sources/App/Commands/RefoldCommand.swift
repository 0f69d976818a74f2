// `dwell refold`: refolds stored journeys under the rules of this version, or with other settings.

import ArgumentParser
import Engine
import Foundation
import JourneyModel
import SQLiteStore

struct RefoldCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "refold",
        abstract: "Refold stored journeys: under the rules of this version, or with other settings.",
        discussion: """
            Computes verdicts and journeys again from the stored events, and counts what changed: verdicts by their old \
            and new value, sessions by their state or the reason they ended, with examples.

            Without --settings, refolds the drivers that an older version folded. The server does the same after its \
            start; use this command to do it beforehand or to see the effect.

            With --settings, corrects a wrong time-out: the events received from --since to --until are folded with \
            those settings instead of the ones in force when they were stored. `current` is the newest version in \
            `dwell config history`; `stored` undoes earlier corrections. Each event keeps the version with which it \
            was stored. Only gracePeriodSeconds and hardTimeoutSeconds have an effect, because the phone alone applies \
            the other settings. --by and --reason are recorded in `dwell config history`.

            With SQLite, a running server does the work, at most 500 events at a time; if requests of clients wait, it \
            first pauses for up to a tenth of a second. With PostgreSQL, the command refolds one driver after the \
            other. The command may be interrupted; run it again to continue. A dry run only reads, so it rejects a \
            database that must be migrated first: make a copy with `dwell backup`, and migrate the copy.

            EXAMPLES
              dwell refold --dry-run
              dwell refold --since 2026-11-01T08:00:00Z --settings current --dry-run
              dwell refold --since 2026-11-01T08:00:00Z --until 2026-11-02T09:30:00Z --settings current \
                --by Ann --reason 'grace period was 90 s instead of 900 s'
            """)

    @Flag(help: "Change nothing; only show the differences.")
    var dryRun = false

    @Option(
        help: "Only drivers with events received since this RFC 3339 time; with --settings, only these events.",
        transform: Self.moment)
    var since: Moment?

    @Option(help: "With --settings: only events received before this RFC 3339 time.", transform: Self.moment)
    var until: Moment?

    @Option(help: ArgumentHelp("The settings to use instead: a version, current or stored.", valueName: "version"))
    var settings: String?

    @Option(help: ArgumentHelp("With --settings: only events stored with this version.", valueName: "version"))
    var insteadOf: String?

    @Option(help: ArgumentHelp("With --settings: who makes the correction.", valueName: "name"))
    var by: String?

    @Option(help: ArgumentHelp("With --settings: why.", valueName: "text"))
    var reason: String?

    @OptionGroup var settingsOptions: SettingsOptions

    static func moment(_ text: String) throws -> Moment {
        guard let moment = RFC3339.moment(from: text) else {
            throw ValidationError("must be an RFC 3339 time with an offset, such as 2026-11-01T00:00:00Z")
        }
        return moment
    }

    func validate() throws {
        guard settings != nil else {
            guard until == nil, insteadOf == nil, by == nil, reason == nil else {
                throw ValidationError("--until, --instead-of, --by and --reason require --settings.")
            }
            return
        }
        guard let since else { throw ValidationError("--settings requires --since.") }
        if let until, until <= since { throw ValidationError("--until must be later than --since.") }
        if let until, until > .now { throw ValidationError("--until must not be in the future.") }
        for (name, text, bytesMax) in [("--by", by, 128), ("--reason", reason, 500)] {
            if dryRun, text == nil { continue }
            guard let text, !text.isEmpty, text.utf8.count <= bytesMax,
                !text.unicodeScalars.contains(where: { $0.properties.generalCategory == .control })
            else {
                throw ValidationError("\(name) must have 1 to \(bytesMax) bytes on one line, unless with --dry-run.")
            }
        }
    }

    private var order: CorrectionOrder? {
        guard let settings, let since else { return nil }
        return CorrectionOrder(
            since: since, until: until, settings: CorrectedSettings(settings), insteadOf: insteadOf)
    }

    func run() async throws {
        let configuration = try settingsOptions.configuration()
        if dryRun { return try await tryOut(configuration) }
        let (counts, failures) = try await refold(configuration)
        for line in RefoldText.lines(of: counts, isDryRun: false) { print(line) }
        guard failures.isEmpty else {
            for failure in failures { writeToStandardError("\(failure)\n") }
            throw ExitCode.failure
        }
    }

    private func tryOut(_ configuration: Configuration) async throws {
        let outcome = try await RefoldTrialRun.outcome(
            order.map { .correction($0) } ?? .rules(since: since), now: .now, configuration)
        for line in RefoldText.lines(of: outcome.counts, isDryRun: true, refolding: outcome.refolding) { print(line) }
    }

    private func refold(_ configuration: Configuration) async throws -> (RefoldCounts, failures: [StoreFailure]) {
        guard case .sqlite(let path) = configuration.database else {
            return try await changing(configuration) { stores, _ in
                try await refold(DatabaseRefolds(store: stores.refolds))
            }
        }
        do {
            return try await refold(path)
        } catch let failure as ServerChanges.Failure {
            writeToStandardError("\(failure)\n")
            throw ExitCode.failure
        } catch {
            writeToStandardError("\(UnusableDatabase(.sqlite(path: path), error))\n")
            throw ExitCode.failure
        }
    }

    /// Refolds through the running server. If no server runs, the command itself refolds in the database file.
    ///
    /// If a running server refuses or fails to refold, for example because it has another version, the option
    /// `--settings` decides. With this option, the command fails. Without it, the command itself refolds in the
    /// database file.
    private func refold(_ path: String) async throws -> (RefoldCounts, failures: [StoreFailure]) {
        do {
            if let server = try await ServerChanges(database: path) { return try await refold(server) }
        } catch let failure as ServerChanges.Failure where settings == nil {
            writeToStandardError("\(failure); refolding in the file\n")
        }
        let store = try SQLiteFile.open(existing: path)
        let result: Result<(RefoldCounts, failures: [StoreFailure]), any Error>
        do {
            result = .success(try await refold(DatabaseRefolds(store: store)))
        } catch {
            result = .failure(error)
        }
        await store.close()
        return try result.get()
    }

    private func refold(_ changes: some RefoldChanges) async throws -> (RefoldCounts, failures: [StoreFailure]) {
        var correction: BegunCorrection?
        if let order {
            let begun = try await changes.begin(order, note: SettingsChangeNote(changedBy: by, reason: reason))
            writeToStandardError("\(RefoldText.line(of: begun))\n")
            correction = begun
        }
        var counts = RefoldCounts()
        var failures: [StoreFailure] = []
        var next: Int64? = 0
        while let after = next {
            let part = try await changes.refold(
                after: after, since: order == nil ? since : nil, correction: correction?.id)
            counts += part.counts
            if let failure = part.failure, failures.count < 20 { failures.append(failure) }
            next = part.next
        }
        if let correction, failures.isEmpty { try await changes.finish(correction: correction.id) }
        return (counts, failures)
    }
}

/// The text of `dwell refold` and `dwell config try`. Its functions are pure.
enum RefoldText {
    static func line(of correction: BegunCorrection) -> String {
        let settings = correction.version.map { "settings \($0)" } ?? "the settings stored with them"
        let verb =
            correction.continues ? "continues the one begun at \(RFC3339.text(of: correction.at))" : "begins"
        return """
            correction \(correction.id) \(verb): events received from \(RFC3339.text(of: correction.since)) to \
            \(RFC3339.text(of: correction.until)) are folded with \(settings)
            """
    }

    static func lines(of counts: RefoldCounts, isDryRun: Bool, refolding: Int = 0) -> [String] {
        let changed = counts.verdicts.values.reduce(0, +)
        var lines = [
            "\(isDryRun ? "dry run, no changes made: " : "")\(counts.drivers) drivers, \(counts.events) events folded",
            "\(changed) verdicts differ, \(counts.movedDrivers) drivers are in another state, "
                + "\(counts.expiries) expiries were missing",
        ]
        if refolding > 0 { lines.append("\(DriverCount.text(refolding)) left out: a refold is in progress") }
        return lines + table("verdicts", counts.verdicts) + table("sessions", counts.sessions, counts.sessionExamples)
    }

    /// Returns the title and one line for each change, the most frequent change first.
    static func table(
        _ title: String, _ counts: [RefoldChange: Int], _ examples: [RefoldChange: [String]] = [:]
    ) -> [String] {
        guard !counts.isEmpty else { return [] }
        let rows = counts.sorted { ($1.value, $0.key.old, $0.key.new) < ($0.value, $1.key.old, $1.key.new) }
        return ["\(title):"]
            + rows.map { row in
                let ids = (examples[row.key] ?? []).map { escaped($0) }.joined(separator: ", ")
                return "  \(row.value)  \(row.key.old) -> \(row.key.new)" + (ids.isEmpty ? "" : "  (\(ids))")
            }
    }
}
