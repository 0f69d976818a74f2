// Tests that ENV.example contains exactly the declared variables, and that a server with this file has the same
// settings as a server without one.

import Foundation
import Testing

@testable import App

@Suite struct EnvironmentExampleTests {
    static let path = URL(filePath: #filePath).deletingLastPathComponent().appending(path: "../../ENV.example")
        .standardizedFileURL.path(percentEncoded: false)

    @Test func theFileIsWhatTheDeclarationsGive() throws {
        let text = try String(contentsOfFile: Self.path, encoding: .utf8)
        #expect(text == EnvironmentExample.text, "write it anew: dwell check-config --example > ENV.example")
    }

    @Test func everyVariableIsInItOnceAndNothingElse() throws {
        let text = try String(contentsOfFile: Self.path, encoding: .utf8)
        let names = text.matches(of: /(?m)^(?:# )?([A-Z][A-Z0-9_]*)=/).map { String($0.1) }
        #expect(names.sorted() == Variables.all.map(\.name).sorted())
    }

    @Test func loadingItGivesTheDefaults() throws {
        let loaded = report(file: Self.path)
        let plain = report()
        #expect(loaded.problems.isEmpty && loaded.warnings.isEmpty)
        #expect(loaded.configuration != nil)
        for (one, other) in zip(loaded.variables, plain.variables) where one.declaration.name != "ENV_FILE" {
            #expect(one.declaration.name == other.declaration.name && one.shown == other.shown)
        }
        let configurations = [loaded, plain].map { String(reflecting: $0.configuration) }
        #expect(configurations[0] == configurations[1])
    }

    @Test func everyVariableIsDeclaredOnceAndRead() {
        let declared = Variables.all.map(\.name)
        #expect(Set(declared).count == declared.count)
        #expect(report().variables.map(\.declaration.name).sorted() == declared.sorted())
    }
}
