// The variable SETTINGS_RULES_FILE, and the reading of its file.

import Engine
import JourneyModel

extension Variables {
    static let settingsRulesFile = Variable<String?>.text(
        "SETTINGS_RULES_FILE", .operation,
        allowed: "the path of a JSON file of at most \(SettingsRules.bytesMax) bytes",
        "Rules with flags and other NATIVE_ settings for some drivers, chargers or app versions (docs/operations.md). "
            + "Read again on SIGHUP."
    ) { isPath($0) }
}

extension ConfigurationReading {
    /// Returns the rules, which replace some of the base settings for some drivers. Returns nil if SETTINGS_RULES_FILE
    /// is not set. If the file is invalid, records every problem in it and returns nil.
    ///
    /// - Parameter base: the base settings; nil if they are invalid. Rules can be validated only with valid base
    ///   settings, so the file is not read if `base` is nil.
    mutating func settingsRules(over base: Settings?) -> SettingsRules? {
        guard let path = value(of: Variables.settingsRulesFile), let base else { return nil }
        let name = Variables.settingsRulesFile.name
        do throws(TextFileError) {
            let text = try readTextFile(path, bytesMax: SettingsRules.bytesMax)
            do throws(SettingsRulesError) {
                return try SettingsRules(reading: Array(text.utf8), base: base)
            } catch {
                for problem in error.problems { note(name, "=\(escaped(path)) \(problem)") }
            }
        } catch {
            let allowed = Variables.settingsRulesFile.allowed
            note(name, "=\(escaped(path)) is not allowed: \(error.reason); allowed is \(allowed)")
        }
        return nil
    }
}
