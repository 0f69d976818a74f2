// Reads every declared variable once. The sources, in order of precedence, are the command line, the environment, the
// environment file, and the default.
//
// ConfigReader of swift-configuration looks up the text of each variable. The code in this file checks the text, reads
// secrets from the files that NAME_FILE variables name, and records sources and problems.

import Configuration
import Foundation
import JourneyModel
import Secrets
import Synchronization

/// The source of a variable's value.
enum ValueSource: Hashable, Sendable, CustomStringConvertible {
    case commandLine
    case environment
    case environmentFile(path: String, line: Int)
    /// The value is a secret in a file. The variable `NAME_FILE` contains the path of this file.
    case file(path: String, variable: String)
    case standard

    var description: String {
        switch self {
        case .commandLine: "command line"
        case .environment: "environment"
        case .environmentFile(let path, let line): "\(path):\(line)"
        case .file(let path, let variable): "\(path) (\(variable))"
        case .standard: "default"
        }
    }
}

/// One variable with its value and source.
struct ReadVariable: Sendable {
    var declaration: any Declaration
    /// The value as text that may be printed. It contains no part of a secret. Its control characters are escaped.
    var shown: String
    var source: ValueSource
    /// The text that the operator wrote, or the default as text. A reload compares old and new texts to find the
    /// changed variables.
    var text: Secret<String>
}

/// A problem with one variable. `description` is one line with the variable, its value and the allowed values. It never
/// contains a secret.
struct ConfigurationProblem: Error, Hashable, Sendable, CustomStringConvertible {
    var variable: String
    var detail: String

    var description: String { "\(variable)\(detail)" }
}

struct ConfigurationReading {
    private struct Found {
        var text: String
        var source: ValueSource
    }

    private let reader: ConfigReader
    private let lastAnswer = LastAnswer()
    private let file: EnvironmentFile?
    private(set) var variables: [ReadVariable] = []
    private(set) var problems: [ConfigurationProblem] = []

    /// - Parameter overrides: the values that command-line options set. The keys are the names of the variables.
    init(overrides: [String: String], environment: [String: String], file: EnvironmentFile?) {
        self.file = file
        let overrides = overrides.map { name, text in
            (AbsoluteConfigKey([name]), ConfigValue(.string(text), isSecret: false))
        }
        reader = ConfigReader(
            providers: [
                InMemoryProvider(name: "command line", values: Dictionary(uniqueKeysWithValues: overrides)),
                EnvironmentVariablesProvider(environmentVariables: environment),
                EnvironmentVariablesProvider(environmentVariables: file?.entries.mapValues(\.value) ?? [:]),
            ], accessReporter: lastAnswer)
    }

    mutating func note(_ variable: String, _ detail: String) {
        problems.append(ConfigurationProblem(variable: variable, detail: detail))
    }

    /// Returns the variable's value, or the default if the variable is not set or its value is invalid. Records a
    /// problem for an invalid value.
    mutating func value<Value>(of variable: Variable<Value>) -> Value {
        guard let found = found(variable), !(found.text.isEmpty && variable.isOptional) else {
            let shown = variable.show(variable.defaultValue)
            variables.append(
                ReadVariable(
                    declaration: variable, shown: shown, source: .standard, text: Secret(variable.defaultText)))
            return variable.defaultValue
        }
        guard let value = variable.parse(found.text) else {
            let shown = variable.isSecret ? "not shown" : escaped(found.text)
            variables.append(
                ReadVariable(
                    declaration: variable, shown: shown, source: found.source, text: Secret(found.text)))
            let text = variable.isSecret ? "" : "=\(shown)"
            let flaw = variable.flaw(found.text).map { ": \($0)" } ?? ""
            note(variable.name, "\(text) (\(found.source)) is not allowed\(flaw); allowed is \(variable.allowed)")
            return variable.defaultValue
        }
        let shown = escaped(variable.show(value))
        variables.append(
            ReadVariable(declaration: variable, shown: shown, source: found.source, text: Secret(found.text)))
        return value
    }

    /// Returns the eight settings of the session engine. JourneyModel validates them together, because the value of one
    /// setting can limit another. If a setting is invalid, records every problem and returns the defaults of all eight.
    mutating func engineSettings() -> Settings {
        var found: [String: Found] = [:]
        for declaration in Settings.declarations {
            let text = text(of: declaration.variable, isSecret: false)
            found[declaration.variable] = text
            variables.append(
                ReadVariable(
                    declaration: EngineVariable(settingsDeclaration: declaration),
                    shown: escaped(text?.text ?? declaration.defaultText), source: text?.source ?? .standard,
                    text: Secret(text?.text ?? declaration.defaultText)))
        }
        do {
            return try Settings.make { found[$0]?.text }
        } catch {
            for error in error.errors {
                let source = found[error.variable]?.source ?? .standard
                note(error.variable, "=\(escaped(error.value)) (\(source)) is not allowed; allowed is \(error.allowed)")
            }
            return Settings()
        }
    }

    /// Returns the text of the variable. If `NAME_FILE` is set for a secret, returns the content of the file that
    /// `NAME_FILE` names.
    private mutating func found(_ variable: some Declaration) -> Found? {
        let own = text(of: variable.name, isSecret: variable.isSecret)
        guard variable.isSecret, let named = text(of: variable.fileVariableName, isSecret: false), !named.text.isEmpty
        else { return own }
        guard own?.text.isEmpty ?? true else {
            note(variable.name, " and \(variable.fileVariableName) are both set; allowed is one of them")
            return nil
        }
        do throws(TextFileError) {
            let text = try readTextFile(named.text, bytesMax: Self.secretBytesMax)
            let source = ValueSource.file(path: escaped(named.text), variable: variable.fileVariableName)
            // Editors add a newline at the end of a file. The newline is not part of the secret.
            let secret = text.hasSuffix("\r\n") || text.hasSuffix("\n") ? String(text.dropLast()) : text
            // Reject an empty file, because it shows that the program that writes the secret has failed. If the server
            // ignored the file, it might use another signing key or another database.
            guard !secret.isEmpty else { throw TextFileError(reason: "it is empty") }
            return Found(text: secret, source: source)
        } catch {
            let reason = "is not allowed: \(error.reason); allowed is the path of a file that holds \(variable.name)"
            note(variable.fileVariableName, "=\(escaped(named.text)) (\(named.source)) \(reason)")
            return nil
        }
    }

    private func text(of name: String, isSecret: Bool) -> Found? {
        guard let text = reader.string(forKey: ConfigKey([name]), isSecret: isSecret) else { return nil }
        switch lastAnswer.providerIndex {
        case 0: return Found(text: text, source: .commandLine)
        case 1: return Found(text: text, source: .environment)
        default:
            let line = file?.entries[name]?.line ?? 0
            return Found(text: text, source: .environmentFile(path: file?.path ?? "", line: line))
        }
    }

    /// The maximum size of a file with a secret, in bytes. All keys and URLs are shorter.
    private static let secretBytesMax = 65_536
}

/// Records which provider supplied the text of the last lookup. ConfigReader stops at the first provider that has a
/// text. The provider that supplied the text is therefore the last in `providerResults`.
private final class LastAnswer: AccessReporter {
    private let index = Mutex(0)

    func report(_ event: AccessEvent) {
        index.withLock { $0 = event.providerResults.count - 1 }
    }

    var providerIndex: Int { index.withLock { $0 } }
}

/// Returns the first 200 characters of the text as one line, with control characters escaped. A value therefore cannot
/// break a printed table or control the terminal.
func escaped(_ text: String) -> String {
    let charactersMax = 200
    let shown = text.unicodeScalars.prefix(charactersMax).map { scalar in
        switch scalar.properties.generalCategory {
        case .control, .lineSeparator, .paragraphSeparator, .format: scalar.escaped(asASCII: true)
        default: String(scalar)
        }
    }
    return shown.joined() + (text.unicodeScalars.count > charactersMax ? "..." : "")
}
