// Tests of PUSH_TEXTS_FILE: a bad file prevents the start, and the error names the place in the file.

import Foundation
import Push
import Testing

@testable import App

@Suite struct PushTextsConfigurationTests {
    private static let texts = """
        {"default": "de", "languages": {"de": {
          "session_active": {"title": "Los", "body": "b"}, "at_merchant": {"title": "Da", "body": "b"},
          "grace_ending": {"title": "Bald", "body": "{minutes}"}, "session_expired": {"title": "Aus", "body": "b"}}}}
        """

    @Test func aFileWithTexts() throws {
        try withFiles(["texts.json": Self.texts]) { folder in
            #expect(report(["PUSH_TEXTS_FILE": folder + "/texts.json"]).problems.isEmpty)
        }
    }

    @Test(arguments: [
        ("\"Da\"", "7", "languages.de.at_merchant.title must be a string of 1 to 100 characters"),
        ("{\"default\"", "{\"x\"", "x is not a member; allowed are default, languages"),
        ("}}}}", "}}}", "line 3 is not JSON: The JSON text is incomplete (byte "),
        ("\"de\",", "\"en\",", "default must be the name of a language in languages"),
    ])
    func aBadFileIsNamedWithItsPlace(part: String, replacement: String, detail: String) throws {
        try withFiles(["texts.json": Self.texts.replacing(part, with: replacement)]) { folder in
            let problems = report(["PUSH_TEXTS_FILE": folder + "/texts.json"]).problems
            #expect(problems.map(\.variable) == ["PUSH_TEXTS_FILE"])
            #expect(problems.first?.detail.contains(detail) == true, "\(problems)")
        }
    }

    @Test func aMissingFile() {
        #expect(report(["PUSH_TEXTS_FILE": "/nowhere/texts.json"]).problems.map(\.variable) == ["PUSH_TEXTS_FILE"])
    }
}
