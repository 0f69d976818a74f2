// `dwell audit`: shows the audit records of a driver. Each record has the action, the time, the origin and the outcome.

import ArgumentParser
import Identity
import JourneyModel
import SQLiteStore
import SharedTables

struct AuditCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "audit",
        abstract: "Show the audit records of a driver's account.",
        discussion: """
            Lists actions by the driver and by operators, newest first, with time, address, request and outcome: \
            sign-ins (also rejected ones), token refreshes and refresh token reuse, sign-outs, profile changes, \
            exports, device changes, Apple's notifications and deletions. Reads only the database, so it works with \
            or without a running server.

            EXAMPLES
              dwell audit --driver drv_5bqk2r
              dwell audit --driver drv_5bqk2r --json | jq '.entries[] | select(.outcome == "refused")'
            """)

    @Option(help: ArgumentHelp("The driver's id.", valueName: "id"))
    var driver: String

    @Option(help: ArgumentHelp("Number of records, 1 to 10000.", valueName: "n"))
    var limit = 100

    @Flag(help: "Print JSON instead of a table.")
    var json = false

    @OptionGroup var settingsOptions: SettingsOptions

    func validate() throws {
        guard (1...AuditRecords.entriesMax).contains(limit) else {
            throw ValidationError("--limit must be a whole number from 1 to \(AuditRecords.entriesMax).")
        }
    }

    func run() async throws {
        let input = ConfigurationInput(overrides: settingsOptions.overrides)
        let configuration = try Configuration.report(from: input).required()
        let database = configuration.database
        let entries = try await entries(configuration)
        if json { print(AuditText.json(entries, of: DriverID(driver))) }
        guard !entries.isEmpty else {
            writeToStandardError("\(database) has no audit records for driver \(escaped(driver)).\n")
            throw ExitCode.failure
        }
        if !json { print(AuditText.table(entries)) }
    }

    private func entries(_ configuration: Configuration) async throws -> [AuditEntry] {
        switch configuration.database {
        case .sqlite(let path):
            try reading(path) { (records: AuditRecords) throws(RecordsUnreadable) in
                try records.entries(of: DriverID(driver), limit: limit)
            }
        case .postgres:
            try await changing(configuration) { stores, _ in
                try await stores.accounts.entries(of: DriverID(driver), limit: limit)
            }
        }
    }
}

/// Formats audit records as a table or as JSON. Its functions are pure.
enum AuditText {
    static func table(_ entries: [AuditEntry]) -> String {
        let rows =
            [["TIME", "ACTION", "OUTCOME", "REASON", "ADDRESS", "SESSION", "REQUEST"]]
            + entries.map { entry in
                [
                    RFC3339.text(of: entry.at), entry.action.rawValue, entry.outcome.rawValue, entry.reason ?? "-",
                    entry.address ?? "-", entry.sid ?? "-", entry.requestID ?? "-",
                ].map(escaped)
            }
        let widths = rows[0].indices.map { column in rows.map { $0[column].count }.max() ?? 0 }
        return rows.map { row in
            let cells = zip(row, widths).map { cell, width in
                cell + String(repeating: " ", count: width - cell.count)
            }
            return String(cells.joined(separator: "  ").reversed().drop { $0 == " " }.reversed())
        }.joined(separator: "\n")
    }

    static func json(_ entries: [AuditEntry], of driver: DriverID) -> String {
        var writer = JSONWriter(reservingBytes: 64 + 256 * entries.count)
        func member(_ name: String, _ text: String?) {
            writer.name(name)
            if let text { writer.string(text) } else { writer.null() }
        }
        writer.beginObject()
        member("driver", driver.rawValue)
        writer.name("entries")
        writer.beginArray()
        for entry in entries {
            writer.beginObject()
            writer.name("id")
            writer.integer(entry.id)
            member("at", RFC3339.text(of: entry.at))
            member("action", entry.action.rawValue)
            member("outcome", entry.outcome.rawValue)
            member("reason", entry.reason)
            member("driver", entry.driver?.rawValue)
            member("sid", entry.sid)
            member("address", entry.address)
            member("request_id", entry.requestID)
            writer.endObject()
        }
        writer.endArray()
        writer.endObject()
        return String(decoding: writer.bytes, as: UTF8.self)
    }
}
