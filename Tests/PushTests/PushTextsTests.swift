// Tests of the texts of alerts: the choice of the language, and the errors of a file.

import Identity
import Testing

@testable import Push

@Suite struct PushTextsTests {
    private static func language(_ name: String) -> String {
        let kinds = AlertKind.allCases.map { #""\#($0.rawValue)":{"title":"\#(name)","body":"{minutes} \#(name)"}"# }
        return #""\#(name)":{\#(kinds.joined(separator: ","))}"#
    }

    private static func parse(_ text: String) throws(PushTextsError) -> PushTexts {
        try PushTexts(parsing: Array(text.utf8))
    }

    private static func file(_ languages: String...) -> String {
        #"{"default":"en","languages":{\#(languages.map(language).joined(separator: ","))}}"#
    }

    @Test(arguments: [
        ("de-AT", "de-AT"), ("de-at", "de-AT"), ("de-AT-1996", "de-AT"), ("de", "de"), ("de-CH", "de"), ("fr", "en"),
        ("deu", "en"), (nil, "en"), ("en-GB", "en"),
    ])
    func `the longest prefix of the locale is chosen`(locale: String?, name: String) throws {
        let texts = try Self.parse(Self.file("en", "de", "de-AT"))
        #expect(texts.text(.atMerchant, locale: locale, secondsLeft: 0).title == name)
    }

    @Test func `minutes are rounded up, and only the warning has them`() throws {
        let texts = try Self.parse(Self.file("en"))
        for (seconds, minutes) in [(180, "3"), (121, "3"), (120, "2"), (1, "1"), (0, "1")] {
            #expect(texts.text(.graceEnding, locale: nil, secondsLeft: Int64(seconds)).body == "\(minutes) en")
        }
        #expect(texts.text(.atMerchant, locale: nil, secondsLeft: 60).body == "{minutes} en")
    }

    @Test func `the texts in the binary have every kind`() {
        for kind in AlertKind.allCases {
            let text = PushTexts.standard.text(kind, locale: "xx", secondsLeft: 180)
            #expect(!text.title.isEmpty && !text.body.isEmpty && !text.body.contains("{"))
        }
    }

    @Test(arguments: [
        ("{", "line 1"), ("{\n  \"default\" 1}", "line 2"), ("[]", "the file"), ("{}", "default"),
        (#"{"default":"en"}"#, "languages"),
        (#"{"default":"en","languages":{}}"#, "default"), (#"{"default":"en","languages":[]}"#, "languages"),
        (file("en").replacing("default\":\"en", with: "default\":\"de"), "default"),
        (file("en").replacing("{\"default", with: "{\"more\":1,\"default"), "more"),
        (file("en", "x"), "languages.x"), (file("en", "EN"), "languages.EN"),
        (file("en").replacing("at_merchant", with: "arrived"), "languages.en.arrived"),
        (#"{"default":"en","languages":{"en":{}}}"#, "languages.en.session_active"),
        (file("en").replacing("\"title\":\"en\"", with: "\"title\":\"\""), "languages.en.session_active.title"),
        (file("en").replacing("\"title\":\"en\",", with: ""), "languages.en.session_active.title"),
        (file("en").replacing("\"{minutes} en\"", with: "7"), "languages.en.session_active.body"),
        (file("en").replacing("\"body\"", with: "\"text\""), "languages.en.session_active.text"),
    ])
    func `a bad file names the place`(text: String, place: String) {
        #expect {
            _ = try Self.parse(text)
        } throws: { error in
            (error as? PushTextsError)?.place == place
        }
    }

    @Test func `a reload says whether the texts changed`() throws {
        let current = CurrentPushTexts()
        #expect(!current.replace(with: .standard))
        #expect(current.replace(with: try Self.parse(Self.file("en"))))
        #expect(current.read() != .standard)
    }
}
