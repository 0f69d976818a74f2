// `dwell purchases`: shows what Apple signed about a driver's purchases, and makes the changes that support staff may
// make. The commands read and change the database directly, whether or not a server is running.

import ArgumentParser
import Foundation
import Identity
import JourneyModel
import Purchases
import SQLiteStore
import SharedTables

struct PurchasesCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "purchases",
        abstract: "Show a driver's purchases; move one; take notifications from a file.",
        discussion: """
            Works on the database, with or without a running server.

            EXAMPLES
              dwell purchases --driver drv_5bqk2r
              dwell purchases move --transaction 2000000123456789 --to drv_7hm3xa
              dwell purchases replay notifications.jsonl
            """,
        subcommands: [PurchasesShowCommand.self, PurchasesMoveCommand.self, PurchasesReplayCommand.self],
        defaultSubcommand: PurchasesShowCommand.self)
}

struct PurchasesShowCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "show",
        abstract: "Show what a driver is entitled to, why, and what Apple signed.",
        discussion: """
            Lists each entitlement with its reason, then each purchase with its owner, the newest signed transactions \
            and renewal, and its notifications. Changes nothing.

            EXIT STATUS
              0 found, 1 unknown driver, or the database cannot be read
            """)

    @Option(help: ArgumentHelp("The driver's id.", valueName: "id"))
    var driver: String

    @Flag(help: "Print JSON instead of text, with each payload as Apple signed it.")
    var json = false

    @OptionGroup var settingsOptions: SettingsOptions

    func run() async throws {
        let found = try await found(settingsOptions.configuration())
        guard let found else { throw DriverSignOutCommand.unknown(driver) }
        let text = PurchaseText(
            driver: DriverID(driver), records: found.records, facts: found.facts, consent: found.consent, now: .now)
        print(json ? text.json : text.text)
    }

    private func found(_ configuration: Configuration) async throws -> DriverPurchases? {
        let driver = DriverID(driver)
        return switch configuration.database {
        case .sqlite(let path):
            try reading(path) { (records: PurchaseRecords) throws(RecordsUnreadable) in
                try records.purchases(of: driver)
            }
        case .postgres:
            try await changing(configuration) { stores, _ in
                try await stores.accounts.read { db in try PurchaseRecordRows.purchases(of: driver, db) }
            }
        }
    }
}

struct PurchasesMoveCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "move",
        abstract: "Give a purchase to another driver.",
        discussion: """
            For a driver who lost the account with which the purchase was made. The purchase, with all its renewals, \
            then belongs to that driver whatever account Apple names in it. Shows the purchase and asks for \
            confirmation; without a terminal, --yes is required. The audit log of both drivers records it.
            """)

    @Option(help: ArgumentHelp("The original transaction id.", valueName: "id"))
    var transaction: String

    @Option(help: ArgumentHelp("The id of the driver who gets it.", valueName: "driver"))
    var to: String

    @Flag(help: "A purchase made in the sandbox.")
    var sandbox = false

    @Flag(help: "Skip the confirmation.")
    var yes = false

    @OptionGroup var settingsOptions: SettingsOptions

    func run() async throws {
        let configuration = try settingsOptions.configuration()
        let key = SubscriptionKey(
            environment: sandbox ? .sandbox : .production, originalTransactionID: transaction)
        guard let record = try await found(configuration).first(where: { $0.key == key }) else {
            writeToStandardError(
                "No purchase in \(configuration.database) has the original transaction id \(escaped(transaction)).\n")
            throw ExitCode.failure
        }
        writeToStandardError(
            "\(escaped(transaction)) belongs to \(record.driver.map { escaped($0.rawValue) } ?? "nobody")\n")
        try confirm("Give it to \(escaped(to))?", yes: yes)
        let isDone = try await changing(configuration) { stores, now in
            try await stores.purchases.move(key, to: DriverID(to), at: now)
        }
        guard isDone else { throw DriverSignOutCommand.unknown(to) }
        print("\(escaped(transaction)) belongs to \(escaped(to)) now")
    }

    private func found(_ configuration: Configuration) async throws -> [PurchaseRecord] {
        let original = transaction
        return switch configuration.database {
        case .sqlite(let path):
            try reading(path) { (records: PurchaseRecords) throws(RecordsUnreadable) in
                try records.purchases(original: original)
            }
        case .postgres:
            try await changing(configuration) { stores, _ in
                try await stores.accounts.read { db in try PurchaseRecordRows.purchases(original: original, db) }
            }
        }
    }
}

struct PurchasesReplayCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "replay",
        abstract: "Take App Store notifications from a file, as if Apple sent them now.",
        discussion: """
            Each line is a signedPayload, alone or as {"signedPayload":"..."}, for example from Apple's notification \
            history. Each is verified as the server does; one that was taken before has no second effect. Prints \
            counts, and every rejected line with its reason.

            EXIT STATUS
              0 every line was taken or known, 1 a line was rejected, or the database cannot be written
            """)

    @Argument(help: "The file.", completion: .file())
    var file: String

    @OptionGroup var settingsOptions: SettingsOptions

    func run() async throws {
        let configuration = try Configuration.report(from: ConfigurationInput(overrides: settingsOptions.overrides))
            .required()
        guard let purchases = configuration.purchases else {
            writeToStandardError("PURCHASE_APPS is not set: no notification can be verified.\n")
            throw ExitCode.badConfiguration
        }
        let lines: [Substring]
        do throws(TextFileError) {
            lines = try readTextFile(file, bytesMax: 1 << 30, mayBePipe: true).split(whereSeparator: \.isNewline)
        } catch {
            writeToStandardError("\(escaped(file)): \(error.reason)\n")
            throw ExitCode.failure
        }
        let (stored, known, refused) = try await changing(settingsOptions) { stores, now in
            let service = AppStorePurchases(
                verifier: purchases.verifier(CertificateChain(roots: [purchases.root])),
                store: stores.purchases,
                newToken: { UUID().uuidString.lowercased() })
            var counts = (stored: 0, known: 0, refused: 0)
            for (number, line) in lines.enumerated() {
                do throws(PurchaseFailure) {
                    let taken = try await service.take(signedPayload: Self.payload(in: line), at: now)
                    if taken.outcome == .repeated { counts.known += 1 } else { counts.stored += 1 }
                } catch {
                    guard case .refused(let reason) = error else { throw error }
                    counts.refused += 1
                    writeToStandardError("\(escaped(file)):\(number + 1): \(reason.rawValue)\n")
                }
            }
            return counts
        }
        print("\(stored) stored, \(known) known, \(refused) rejected")
        if refused > 0 { throw ExitCode.failure }
    }

    static func payload(in line: Substring) -> String {
        let line = line.trimmingCharacters(in: .whitespaces)
        guard line.hasPrefix("{"), let json = try? JSONValue.parse(Array(line.utf8)),
            case .string(let payload) = json["signedPayload"]
        else { return line }
        return payload
    }
}
