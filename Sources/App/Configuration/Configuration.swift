// The list of the variables that the server reads (contract, sections 2 and 8). Other files in this folder declare the
// variables of one topic each, such as HTTP or push. Each declaration gives the name, type, default, range and purpose
// of a variable, and says whether its value is a secret.
//
// The server checks every value against its declaration. `dwell check-config` prints the allowed values, and a test
// compares ENV.example with the declarations.
//
// The eight variables of the session engine are declared in JourneyModel, beside `Settings`, the type that clients
// decode.

import JourneyModel

enum Variables {
    /// All declarations, in the order in which ENV.example lists them within each section.
    static let all: [any Declaration] =
        [process, http, storage, tokens, signIn, purchases, links, push, limits, operation].flatMap(\.self)
        + [settingsChangedBy, settingsChangeReason, settingsRulesFile] + Settings.declarations.map(EngineVariable.init)
}

/// A variable of the session engine, as JourneyModel declares it.
struct EngineVariable: Declaration {
    let settingsDeclaration: Settings.Declaration

    var name: String { settingsDeclaration.variable }
    var section: VariableSection { .engine }
    var defaultText: String { settingsDeclaration.defaultText }
    var allowed: Allowed { .text(settingsDeclaration.allowed) }
    var isSecret: Bool { false }
    var sentence: String { "\(settingsDeclaration.field)." }

    func accepts(_ text: String) -> Bool {
        (try? Settings.make { $0 == name ? text : nil }) != nil
    }
}
