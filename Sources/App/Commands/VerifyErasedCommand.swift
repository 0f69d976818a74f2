// `dwell verify-erased`: searches the database, Redis and the files that options name for remaining data of a deleted
// driver.

import ArgumentParser
import Foundation
import Identity
import JourneyModel
import RateLimiting
import SQLiteStore
import SharedTables
import Sockets

struct VerifyErasedCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "verify-erased",
        abstract: "Search for remaining data of a deleted driver.",
        discussion: """
            Searches every column of every table, and the bytes of the database file and its write-ahead log, for \
            each given identifier. An identifier is also found as part of a longer one: drv-1 in drv-10. For a \
            receipt, checks the rows of the deleted driver. With REDIS_URL, also searches Redis for keys of --driver. \
            Changes nothing, and works beside a running server. Backups and logs are not searched unless you name \
            them: backups with --database, logs with --file.

            A deletion is recorded under a keyed hash of the driver's id, so for --driver the command also prints \
            when it was deleted. An id without any data and without a recorded deletion is an error, because it may \
            be misspelled. Phone numbers, email addresses and Apple IDs of deleted drivers are not recorded.

            EXAMPLES
              dwell verify-erased --driver drv_5bqk2r --phone +491511234567
              dwell verify-erased --receipt rcp_x7q2 --database backup.sqlite3

            EXIT STATUS
              0 nothing was found; 1 data was found, a file could not be read, or the id or receipt is unknown
            """)

    @Option(help: ArgumentHelp("The deleted driver's id.", valueName: "id"))
    var driver: String?

    @Option(help: ArgumentHelp("The receipt of the deletion.", valueName: "id"))
    var receipt: String?

    @Option(help: "A phone number with its country code, in any notation.")
    var phone: String?

    @Option(help: "An email address.")
    var email: String?

    @Option(help: ArgumentHelp("Apple's id of the user (sub).", valueName: "sub"))
    var appleSubject: String?

    @Option(help: ArgumentHelp("Any other identifier: a place, a source, an address.", valueName: "text"))
    var text: [String] = []

    @Option(
        help: ArgumentHelp("Another file to search for the identifiers, for example a proxy's log.", valueName: "path"))
    var file: [String] = []

    @OptionGroup var settingsOptions: SettingsOptions

    func validate() throws {
        guard !identifiers.isEmpty || receipt != nil else {
            throw ValidationError(
                "Give at least one of --driver, --receipt, --phone, --email, --apple-subject and --text.")
        }
        for (option, text) in identifiers where text.utf8.count < ErasureScan.identifierBytesMin {
            throw ValidationError(
                "\(option) must have at least \(ErasureScan.identifierBytesMin) bytes: shorter ones match by chance.")
        }
        if let phone, PhoneNumber(phone) == nil {
            throw ValidationError("--phone must be a number with its country code: + and 8 to 15 digits.")
        }
    }

    func run() async throws {
        let input = ConfigurationInput(overrides: settingsOptions.overrides)
        let configuration = try Configuration.report(from: input).required()
        guard case .sqlite(let path) = configuration.database else { return try await searchPostgres(configuration) }
        let found: [String]
        do {
            let scan = ErasureScan(path: path)
            let remains = try await ofReceipt(scan) + ofIdentifiers(scan) + inRedis(configuration.redis)
            found = try ofDeletion(path, configuration.tokens) + remains
        } catch {
            writeToStandardError("\(path): \(DatabaseOpening.reason(error, at: path))\n")
            throw ExitCode.failure
        }
        guard found.isEmpty else {
            print(found.joined(separator: "\n"))
            throw ExitCode.failure
        }
        if let driver { try checkDeletion(of: DriverID(driver), path, configuration.tokens) }
        print("\(path): no remaining data found.")
    }

    private func searchPostgres(_ configuration: Configuration) async throws {
        let database = configuration.database
        try await changing(configuration) { stores, _ in
            guard let search = stores.erasureSearch else { return }
            let remains = try await ofReceipt(search) + ofIdentifiers(search) + inRedis(configuration.redis)
            let found = try await ofDeletion(stores.accounts) + remains
            guard found.isEmpty else {
                print(found.joined(separator: "\n"))
                throw ExitCode.failure
            }
            if let driver {
                let digests = stores.accounts.digests
                let erasedAt = try await stores.accounts.read { db in
                    try DriverRows.erasedAt(DriverID(driver), digests, db)
                }
                try report(erasedAt, in: "\(database)")
            }
            print("\(database): no remaining data found.")
        }
    }

    /// Prints when the driver was deleted. Fails if the database has no record of the deletion.
    ///
    /// Looking up a deletion needs the signing key. If the key is missing, this method prints a message and does not
    /// fail.
    private func checkDeletion(of driver: DriverID, _ path: String, _ tokens: TokenConfiguration) throws {
        guard let key = try tokens.existingKey() else {
            return writeToStandardError(
                "\(path): cannot look up the deletion of --driver without the server's signing key.\n")
        }
        let erasedAt = try reading(path) { (records: DriverRecords) throws(RecordsUnreadable) in
            try records.erasedAt(driver, KeyedHashes(signingKey: key))
        }
        try report(erasedAt, in: path)
    }

    private func report(_ erasedAt: Moment?, in database: String) throws {
        guard let erasedAt else {
            writeToStandardError(
                """
                \(database): the database has no data and no recorded deletion of --driver. Is the id spelled correctly? \
                A deletion recorded under another signing key is not found.

                """)
            throw ExitCode.failure
        }
        print("\(database): --driver was deleted at \(RFC3339.text(of: erasedAt)).")
    }

    private var identifiers: [(option: String, text: String)] {
        // Search for the digits of a phone number without `+`, because stored numbers may begin with `+` or not.
        let digits = phone.flatMap { PhoneNumber($0).map { String($0.e164.dropFirst()) } ?? $0 }
        return [("--driver", driver), ("--phone", digits), ("--email", email), ("--apple-subject", appleSubject)]
            .compactMap { option, text in text.map { (option, $0) } } + text.map { ("--text", $0) }
    }

    private func ofDeletion(_ path: String, _ tokens: TokenConfiguration) throws -> [String] {
        // An unreadable key is not reported here, because `checkDeletion` reports it.
        guard let driver, let key = try? tokens.existingKey() else { return [] }
        let records = try DriverRecords(path: path)
        defer { records.close() }
        return try records.isErasureUnderWay(DriverID(driver), KeyedHashes(signingKey: key)) ? [Self.unfinished] : []
    }

    private func ofDeletion(_ accounts: StoredAccounts) async throws -> [String] {
        guard let driver else { return [] }
        let isUnderWay = try await accounts.read { db in
            try !accounts.store.unfinishedErasures(accounts.digests.driver(DriverID(driver)), db).isEmpty
        }
        return isUnderWay ? [Self.unfinished] : []
    }

    private static let unfinished =
        "--driver: the deletion is not complete; the server continues it, or completes it at its next start"

    private func ofReceipt(_ scan: any ErasureSearch) async throws -> [String] {
        guard let receipt else { return [] }
        guard let left = try await scan.leftovers(ofReceipt: receipt) else {
            return ["--receipt matches no deletion in this database"]
        }
        return left.map { "--receipt: \($0) remains" }
    }

    private func ofIdentifiers(_ scan: any ErasureSearch) async throws -> [String] {
        guard !identifiers.isEmpty else { return [] }
        let texts = identifiers.map(\.text)
        return try await (scan.find(texts) + ErasureScan.find(texts, in: file)).map { finding in
            "\(identifiers[finding.identifier].option) is in \(finding.location)"
        }
    }

    private func inRedis(_ redis: Configuration.Redis) async throws -> [String] {
        guard let driver, let endpoint = redis.endpoint else { return [] }
        let loops = try EventLoopGroup(count: 1)
        let keys: Result<[String], any Error>
        do {
            keys = .success(try await RedisRateLimiter.keys(of: DriverID(driver), at: endpoint, on: loops.loops[0]))
        } catch {
            keys = .failure(error)
        }
        await loops.shutdown()
        return try keys.get().map { "--driver is in Redis: \($0)" }
    }
}
