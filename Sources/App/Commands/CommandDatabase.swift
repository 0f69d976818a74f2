// Functions for commands that open the database themselves, even while a server is running. If the database cannot be
// used, these functions print the reason to standard error and fail the command.

import ArgumentParser
import Identity
import JourneyModel

extension Configuration.Database {
    /// Returns the path of the SQLite file. With PostgreSQL, prints `sentence` and fails the command.
    func file(insteadOf sentence: String) throws -> String {
        switch self {
        case .sqlite(let path): return path
        case .postgres:
            writeToStandardError("DATABASE_URL is set, so the database is PostgreSQL. \(sentence)\n")
            throw ExitCode.failure
        }
    }
}

/// Opens the database that the settings name, runs `body`, and closes the database.
func changing<Outcome>(
    _ options: SettingsOptions, _ body: (Stores, Moment) async throws -> Outcome
) async throws -> Outcome {
    try await changing(options.configuration(), body)
}

func changing<Outcome>(
    _ configuration: Configuration, _ body: (Stores, Moment) async throws -> Outcome
) async throws -> Outcome {
    let database = configuration.database
    let digests = KeyedHashes(signingKey: try configuration.tokens.requiredKey())
    do {
        let stores = try await Stores.existing(database, digests: digests)
        let outcome: Outcome
        do {
            outcome = try await body(stores, .now)
        } catch {
            await stores.close()
            throw error
        }
        await stores.close()
        return outcome
    } catch let code as ExitCode {
        throw code
    } catch {
        writeToStandardError("\(database): \(UnusableDatabase(database, error).reason)\n")
        throw ExitCode.failure
    }
}
