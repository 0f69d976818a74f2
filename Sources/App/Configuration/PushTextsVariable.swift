// The variable that names the file with the texts of alerts.

import Push

extension Variables {
    static let pushTextsFile = Variable<String?>.text(
        "PUSH_TEXTS_FILE", .push,
        allowed: "the path of a JSON file of at most \(PushTexts.bytesMax) bytes",
        "The texts of alerts by language (docs/push.md); if not set, alerts are in English."
    ) { isPath($0) }
}

extension PushTexts {
    /// Reads the file that PUSH_TEXTS_FILE names. If the file cannot be read or is invalid, records a problem.
    init(_ reading: inout ConfigurationReading) {
        self = .standard
        let variable = Variables.pushTextsFile
        guard let path = reading.value(of: variable) else { return }
        let reason: String
        do {
            self = try PushTexts(parsing: Array(try readTextFile(path, bytesMax: Self.bytesMax).utf8))
            return
        } catch let error as PushTextsError {
            reason = "\(error)"
        } catch let error as TextFileError {
            reason = error.reason
        } catch {
            reason = "it cannot be read"
        }
        reading.note(variable.name, "=\(escaped(path)) is not allowed: \(escaped(reason))")
    }
}
