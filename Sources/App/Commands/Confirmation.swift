// Asks the operator to confirm an operation that cannot be undone.

import ArgumentParser
import Foundation

/// Returns if the operator agrees, by `--yes` or by answering `y` at a terminal. Otherwise throws, and the command ends
/// with status 1 without having changed anything.
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
