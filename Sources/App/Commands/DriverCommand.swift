// `dwell driver`: operations on a driver's account, for example to repeat deletions after a restore.
// DriverChanges.swift makes the changes. Commands that change nothing read the database directly.

import ArgumentParser
import Identity
import JourneyModel
import SharedTables

struct DriverCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "driver",
        abstract: "Find, sign out or delete a driver; repeat deletions after a restore.",
        discussion: """
            With SQLite, a running server makes the changes, over a socket beside its database. If it is stopped, and \
            with PostgreSQL, the command changes the database itself. The audit log records every change: dwell audit --driver ID.
            """,
        subcommands: [
            DriverFindCommand.self, DriverSignOutCommand.self, DriverEraseCommand.self, DriverErasuresCommand.self,
            DriverRepeatErasuresCommand.self,
        ])
}

struct DriverFindCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "find",
        abstract: "Find a driver by phone number, email address or id.",
        discussion: """
            Prints each matching driver with its account data and its journey's state. Changes nothing. An email \
            address is compared with profiles and Apple IDs, so it can match several drivers.

            EXAMPLES
              dwell driver find --phone '+49 151 1234567'
              dwell driver find --email jonas@example.org --json | jq -r '.drivers[].id'

            EXIT STATUS
              0 found, 1 no match, or the database cannot be read
            """)

    @Option(help: "A phone number with its country code, in any notation.")
    var phone: String?

    @Option(help: "An email address, case-insensitive.")
    var email: String?

    @Option(help: ArgumentHelp("The driver's id.", valueName: "id"))
    var id: String?

    @Flag(help: "Print JSON instead of text.")
    var json = false

    @OptionGroup var settingsOptions: SettingsOptions

    func validate() throws {
        guard [phone, email, id].count(where: { $0 != nil }) == 1 else {
            throw ValidationError("Give one of --phone, --email and --id.")
        }
        guard email?.isEmpty != true, id?.isEmpty != true else {
            throw ValidationError("--phone, --email and --id cannot be empty.")
        }
        if let phone, PhoneNumber(phone) == nil {
            throw ValidationError("--phone must be a number with its country code: + and 8 to 15 digits.")
        }
    }

    func run() async throws {
        let configuration = try Configuration.report(from: ConfigurationInput(overrides: settingsOptions.overrides))
            .required()
        guard let question else { throw ExitCode.failure }
        let drivers = try await DriverLookup.find(question, configuration)
        if json { print(DriverText.json(drivers)) }
        guard drivers.isEmpty else {
            if !json { print(drivers.map(DriverText.text).joined(separator: "\n\n")) }
            return
        }
        writeToStandardError("\(configuration.database): no match.\n")
        if let id, let erasedAt = try await DriverLookup.erasedAt(DriverID(id), configuration) {
            writeToStandardError("This driver was deleted at \(RFC3339.text(of: erasedAt)).\n")
        }
        throw ExitCode.failure
    }

    private var question: DriverQuery? {
        if let phone { return PhoneNumber(phone).map(DriverQuery.phone) }
        if let email { return .email(email) }
        return id.map { .id(DriverID($0)) }
    }
}

struct DriverSignOutCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "sign-out",
        abstract: "End every sign-in session of a driver.",
        discussion: """
            For example after a phone is lost. Access tokens and refresh tokens are rejected at once. Tokens without a \
            sign-in session (from dwell token or from another service) stay valid until they expire.

            EXAMPLES
              dwell driver sign-out --id drv_5bqk2r
            """)

    @Option(help: ArgumentHelp("The driver's id.", valueName: "id"))
    var id: String

    @OptionGroup var settingsOptions: SettingsOptions

    func run() async throws {
        let count = try await changingDrivers(settingsOptions) { changes in try await changes.signOut(DriverID(id)) }
        guard let count else { throw Self.unknown(id) }
        print("\(id): \(count) sign-in session\(count == 1 ? "" : "s") ended")
    }

    static func unknown(_ id: String) -> ExitCode {
        writeToStandardError("Driver \(escaped(id)) not found; search with dwell driver find.\n")
        return .failure
    }
}

struct DriverEraseCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "erase",
        abstract: "Delete a driver's account and all data that identifies the person.",
        discussion: """
            The same as DELETE /auth/me in the app, and irreversible: deletes the account, its devices and its \
            sign-in sessions; events stay without a link to a person. Shows the driver and asks for confirmation; \
            without a terminal, --yes is required. Prints the receipt, which dwell verify-erased accepts.

            EXAMPLES
              dwell driver erase --id drv_5bqk2r
              dwell driver erase --id drv_5bqk2r --yes
            """)

    @Option(help: ArgumentHelp("The driver's id.", valueName: "id"))
    var id: String

    @Flag(help: "Skip the confirmation.")
    var yes = false

    @OptionGroup var settingsOptions: SettingsOptions

    func run() async throws {
        let driver = try await DriverLookup.find(.id(DriverID(id)), settingsOptions.configuration()).first
        guard let driver else { throw DriverSignOutCommand.unknown(id) }
        writeToStandardError(DriverText.text(driver) + "\n")
        try confirm("Delete this driver? It cannot be undone.", yes: yes)
        let erased = try await changingDrivers(settingsOptions) { changes in try await changes.erase(DriverID(id)) }
        guard let erased else { throw DriverSignOutCommand.unknown(id) }
        if erased.isInWAL { warnAboutWAL() }
        print("\(id) deleted at \(RFC3339.text(of: erased.receipt.deletedAt)), receipt \(erased.receipt.id)")
    }
}

func warnAboutWAL() {
    writeToStandardError(
        """
        warning: another process (a backup, a shell) is reading an old snapshot of the database, so deleted bytes are \
        still in its write-ahead log. The server removes them when that process has finished.

        """)
}
