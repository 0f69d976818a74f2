// The question before something that cannot be taken back.

import ArgumentParser
import Foundation

/// Returns when the operator agrees: by `--yes`, or by answering `y` at a terminal. Otherwise the command ends with status
/// 1, and nothing was changed.
func confirm(_ question: String, yes: Bool) throws {
    if yes { return }
    guard isatty(STDIN_FILENO) == 1, isatty(STDERR_FILENO) == 1 else {
        writeToStandardError("\(question) Nothing was changed; --yes does it.\n")
        throw ExitCode.failure
    }
    writeToStandardError("\(question) [y/N] ")
    let answer = readLine()?.trimmingCharacters(in: .whitespaces).lowercased()
    guard answer == "y" || answer == "yes" else {
        writeToStandardError("Nothing was changed.\n")
        throw ExitCode.failure
    }
}
