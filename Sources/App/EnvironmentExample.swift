// The required content of ENV.example, generated from the declarations. Pure.

enum EnvironmentExample {
    /// An environment file with every variable at its default, each with its description and range, in sections.
    static var text: String {
        let head = """
            # Every variable that this version of dwell reads, at its default. Copy it to .env and change what you need.
            # The environment wins over this file. A secret can come from a file: the same name with _FILE.
            # Written by `dwell check-config --example`.

            """
        return VariableSection.allCases.reduce(into: head) { text, section in
            text += "\n# --- \(section.rawValue) ---\n"
            for variable in Variables.all where variable.section == section { text += "\n" + entry(variable) }
        }
    }

    private static func entry(_ variable: any Declaration) -> String {
        // ENV_FILE names this file; in the file itself it has no effect.
        let mark = variable.name == Variables.environmentFile.name ? "# " : ""
        let range = variable.isOptional ? "Not set, or: \(variable.allowed)." : "Allowed: \(variable.allowed)."
        return "# \(variable.sentence)\n# \(range)\n\(mark)\(variable.name)=\(variable.defaultText)\n"
    }
}
