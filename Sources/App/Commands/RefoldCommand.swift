// `dwell refold`.

import ArgumentParser
import Engine
import Foundation
import JourneyModel
import SQLiteStore
import Simulation
import StructuredLogging

struct RefoldCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "refold",
        abstract: "Refold stored journeys under the rules of this version.",
        discussion: """
            Folds again the events of drivers that an older version folded, each driver in one transaction, and \
            counts what changed: verdicts by their old and new value, sessions by their state or the reason they \
            ended. The server does the same after its start, and on a driver's next event; use this command to do it \
            beforehand or to see the effect. It can run beside a server, and be interrupted and run again.

            A dry run changes nothing, so it rejects a database that must be migrated first: make a copy with `dwell \
            backup`, and migrate the copy.

            EXAMPLES
              dwell refold --dry-run
              dwell refold --dry-run --database copy.sqlite3
              dwell refold --since 2026-11-01T00:00:00Z
            """)

    @Flag(help: "Change nothing; only show the differences.")
    var dryRun = false

    @Option(help: "Only drivers with events since this RFC 3339 time.", transform: Self.moment)
    var since: Moment?

    @OptionGroup var settingsOptions: SettingsOptions

    private static func moment(_ text: String) throws -> Moment {
        guard let moment = RFC3339.moment(from: text) else {
            throw ValidationError("must be an RFC 3339 time with an offset, such as 2026-11-01T00:00:00Z")
        }
        return moment
    }

    func run() async throws {
        let path = try settingsOptions.configuration().databasePath
        do {
            // A dry run must not migrate the database, because a server of the previous release may still use the old
            // columns.
            if dryRun, FileManager.default.fileExists(atPath: path) { try DatabaseOpening.requireCurrent(path: path) }
            let store = try Wiring.openStore(existing: path)
            let (counts, failures) = try await refold(store)
            await store.close()
            for line in Self.lines(of: counts, isDryRun: dryRun) { print(line) }
            guard failures.isEmpty else {
                for failure in failures { writeToStandardError("\(failure)\n") }
                throw ExitCode.failure
            }
        } catch let exit as ExitCode {
            throw exit
        } catch {
            writeToStandardError("\(UnusableDatabase(path: path, error))\n")
            throw ExitCode.failure
        }
    }

    /// Refolds all drivers in parts. After each part, pauses for as long as the part took, but at most 100 ms, so that
    /// a running server can write too.
    private func refold(_ store: SQLiteEventStore) async throws -> (RefoldCounts, failures: [StoreFailure]) {
        var counts = RefoldCounts()
        var failures: [StoreFailure] = []
        var request = RefoldRequest(since: since, isDryRun: dryRun)
        while true {
            let start = ContinuousClock.now
            let part = try await store.refold(request)
            counts += part.counts
            if let failure = part.failure, failures.count < 20 { failures.append(failure) }
            guard let next = part.next else { return (counts, failures) }
            request.after = next
            try await Task.sleep(for: min(ContinuousClock.now - start, .milliseconds(100)))
        }
    }

    static func lines(of counts: RefoldCounts, isDryRun: Bool) -> [String] {
        let changed = counts.verdicts.values.reduce(0, +)
        var lines = [
            "\(isDryRun ? "dry run, no changes made: " : "")\(counts.drivers) drivers, \(counts.events) events folded",
            "\(changed) verdicts differ, \(counts.movedDrivers) drivers are in another state, "
                + "\(counts.expiries) expiries were missing",
        ]
        lines += Self.table("verdicts", counts.verdicts) + Self.table("sessions", counts.sessions)
        return lines
    }

    private static func table(_ title: String, _ counts: [RefoldChange: Int]) -> [String] {
        guard !counts.isEmpty else { return [] }
        let rows = counts.sorted { ($1.value, $0.key.old, $0.key.new) < ($0.value, $1.key.old, $1.key.new) }
        return ["\(title):"] + rows.map { "  \($0.value)  \($0.key.old) -> \($0.key.new)" }
    }
}
