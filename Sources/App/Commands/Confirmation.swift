// Asks the operator to confirm an operation that cannot be undone.

import ArgumentParser
import Foundation

/// Throws unless `--yes` was given or the operator types `y` at a terminal. A command that throws ends with status 1
/// and changes nothing.
func confirm(_ question: String, yes: Bool) throws {
    if yes { return }
    guard isatty(STDIN_FILENO) == 1, isatty(STDERR_FILENO) == 1 else {
        writeToStandardError("\(question) Nothing was changed; confirm with --yes.\n")
        throw ExitCode.failure
    }
    writeToStandardError("\(question) [y/N] ")
    let answer = readLine()?.trimmingCharacters(in: .whitespaces).lowercased()
    guard answer == "y" || answer == "yes" else {
        writeToStandardError("Nothing was changed.\n")
        throw ExitCode.failure
    }
}
