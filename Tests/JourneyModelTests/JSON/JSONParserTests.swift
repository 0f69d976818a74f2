// Tests of the JSON parser, in the order of the sections of RFC 8259. The parser rejects all invalid texts, and also
// some valid ones. Mutated or malicious input must not make it crash, hang or guess.

import JourneyModel
import TestSupport
import Testing

struct JSONParserTests {
    private func parse(_ text: String) throws -> JSONValue {
        try JSONValue.parse(Array(text.utf8))
    }

    private func error(_ bytes: [UInt8]) -> JSONError? {
        do throws(JSONError) {
            _ = try JSONValue.parse(bytes)
            return nil
        } catch {
            return error
        }
    }

    private func error(_ text: String) -> JSONError? {
        error(Array(text.utf8))
    }

    @Test("Any value may be the text, with white space around every token (sections 2 and 3)")
    func values() throws {
        #expect(try parse("null") == .null)
        #expect(try parse(" true\n") == .bool(true))
        #expect(try parse("false") == .bool(false))
        #expect(try parse("\t-12.50e+3\r") == .number("-12.50e+3"))
        #expect(try parse("\"\"") == .string(""))
        #expect(try parse("[]") == .array([]))
        #expect(try parse("{ }") == .object([]))
        #expect(
            try parse(" { \"a\" : [ 1 , { \"b\" : null } ] , \"\" : \"x\" } ")
                == .object([
                    JSONMember("a", .array([.number("1"), .object([JSONMember("b", .null)])])),
                    JSONMember("", .string("x")),
                ]))
    }

    @Test(
        "Numbers by the grammar of section 6, kept to the letter",
        arguments: [
            "0", "-0", "10", "1.0", "0.10", "1e5", "1E-5", "1e+05", "123456789012345678901234567890", "-0.0e-0",
        ])
    func numbers(_ text: String) throws {
        #expect(try parse(text) == .number(text))
        #expect(try parse("[\(text),\(text)]") == .array([.number(text), .number(text)]))
    }

    @Test(
        "What only looks like a number is refused",
        arguments: [
            "01", "-", "-x", "1.", ".5", "+1", "1e", "1e+", "0x10", "1.e5", "00", "NaN", "Infinity", "-Infinity",
            "1_000",
            "1,5", "\u{661}",
        ])
    func noNumbers(_ text: String) {
        #expect(error(text) != nil)
    }

    @Test("Strings: every escape of section 7, and pairs of surrogates")
    func escapes() throws {
        #expect(try parse(#""\"\\\/\b\f\n\r\t""#) == .string("\"\\/\u{08}\u{0C}\n\r\t"))
        #expect(try parse(#""\u0041\u00e9\u20AC\uD83D\uDE42x\u0000""#) == .string("A\u{E9}\u{20AC}\u{1F642}x\u{0}"))
        #expect(try parse("\"caf\u{E9} \u{1F642} \u{7F}\u{2028}\"") == .string("caf\u{E9} \u{1F642} \u{7F}\u{2028}"))
        #expect(try parse(#""ä\nö""#) == .string("ä\nö"))
        #expect(try parse(#"{"\u0061":1}"#)["a"] == .number("1"))
    }

    @Test(
        "Not JSON, and where",
        arguments: [
            ("", .unexpectedEnd, 0), ("  ", .unexpectedEnd, 2), ("[1", .unexpectedEnd, 2),
            ("{\"a\":", .unexpectedEnd, 5),
            ("\"abc", .unexpectedEnd, 4), ("\"a\\", .unexpectedEnd, 3), ("tru", .unexpectedEnd, 3),
            ("trux", .unexpectedByte, 3), ("[1,]", .unexpectedByte, 3), ("[,1]", .unexpectedByte, 1),
            ("[1 2]", .unexpectedByte, 3), ("{\"a\" 1}", .unexpectedByte, 5), ("{a:1}", .unexpectedByte, 1),
            ("{\"a\":1,}", .unexpectedByte, 7), ("{1:2}", .unexpectedByte, 1), ("'a'", .unexpectedByte, 0),
            ("[1}", .unexpectedByte, 2), ("/**/1", .unexpectedByte, 0), ("\u{FEFF}1", .unexpectedByte, 0),
            ("1 2", .trailingBytes, 2), ("{}}", .trailingBytes, 2), ("null\u{0}", .trailingBytes, 4),
            ("\"a\nb\"", .unescapedControlCharacter, 2), ("\"\\n\u{1}\"", .unescapedControlCharacter, 3),
            ("\"\\x\"", .invalidEscape, 2), ("\"\\u12G4\"", .invalidEscape, 5), ("\"\\U0041\"", .invalidEscape, 2),
            ("-a", .invalidNumber, 1), ("012", .invalidNumber, 1), ("1.x", .invalidNumber, 2),
        ] as [(String, JSONError.Reason, Int)])
    func syntaxErrors(_ text: String, _ reason: JSONError.Reason, _ offset: Int) {
        #expect(error(text) == JSONError(reason, offset: offset))
    }

    @Test("A number has at most 64 characters; a longer one is refused where it begins, and no reader sees its digits")
    func numberLength() throws {
        let longest = "-" + String(repeating: "1", count: 59) + "e+12"
        #expect(try parse(longest) == .number(longest))
        for long in [
            longest + "3", String(repeating: "9", count: 65), "0." + String(repeating: "0", count: 63),
            "1" + String(repeating: "0", count: 1 << 20), "0." + String(repeating: "0", count: 1 << 20) + "e999999999",
        ] {
            #expect(error(long) == JSONError(.numberTooLong, offset: 0))
            #expect(error("[{\"a\":\(long)}]") == JSONError(.numberTooLong, offset: 6))
            #expect(error("[\(long),1,]")?.reason == .unexpectedByte, "What is no JSON is told so first.")
        }
    }

    @Test(
        "Half a surrogate pair is no character",
        arguments: [
            #""\ud83d""#, #""\ude42""#, #""\ud83dx""#, #""\ud83d\n""#, #""\ud83d\u0041""#, #""\ud83d\ud83d""#,
            #"{"\udc00":1}"#,
        ])
    func loneSurrogates(_ text: String) {
        #expect(error(text)?.reason == .loneSurrogate)
    }

    @Test(
        "Bytes that are not UTF-8 are refused, in strings and names, with and without escapes",
        arguments: [
            [0xFF], [0xC0, 0xAF], [0xE2, 0x82], [0xED, 0xA0, 0x80], [0xF4, 0x90, 0x80, 0x80], [0x80], [0xC3],
        ] as [[UInt8]])
    func invalidUTF8(_ bytes: [UInt8]) {
        let quote = UInt8(ascii: "\"")
        #expect(error([quote] + bytes + [quote])?.reason == .invalidUTF8)
        #expect(error([quote, UInt8(ascii: "\\"), UInt8(ascii: "n")] + bytes + [quote])?.reason == .invalidUTF8)
        #expect(error(Array("{\"".utf8) + bytes + Array("\":1}".utf8))?.reason == .invalidUTF8)
        #expect(error(bytes) != nil)
    }

    @Test("A name twice is refused, however it is written; names that only look alike are two")
    func duplicateNames() throws {
        #expect(error(#"{"a":1,"a":1}"#) == JSONError(.duplicateName, offset: 7))
        #expect(error(#"{"a":1,"\u0061":2}"#)?.reason == .duplicateName)
        #expect(error(#"[{"x":{"a":1,"b":2,"a":3}}]"#)?.reason == .duplicateName)
        #expect(try parse("{\"\u{E9}\":1,\"e\u{301}\":2,\"K\":3,\"\u{212A}\":4}")["e\u{301}"] == .number("2"))
        let many = (0..<100).map { "\"n\($0)\":\($0)" }.joined(separator: ",")
        #expect(try parse("{\(many)}")["n99"] == .number("99"))
        for index in [0, 15, 16, 17, 99] {
            #expect(error("{\(many),\"n\(index)\":0}")?.reason == .duplicateName, "n\(index)")
        }
    }

    @Test("Sixty-four levels are read, sixty-five are not, and no depth is too deep for the stack")
    func depth() throws {
        func nested(_ depth: Int) -> String {
            String(repeating: "[", count: depth) + String(repeating: "]", count: depth)
        }
        #expect(throws: Never.self) { try parse(nested(64)) }
        #expect(error(nested(65)) == JSONError(.tooDeep, offset: 64))
        #expect(error(nested(500_000))?.reason == .tooDeep)
        #expect(error(String(repeating: "[", count: 500_000))?.reason == .unexpectedEnd)
        #expect(error(String(repeating: "{\"a\":", count: 500_000))?.reason == .unexpectedEnd)
        #expect(error(String(repeating: "[", count: 70) + "\"]\\\"")?.reason == .unexpectedEnd)
    }

    @Test("A megabyte is read within seconds, however it is made up")
    func megabyte() throws {
        let clock = ContinuousClock()
        let texts = [
            "{" + (0..<60_000).map { "\"name\($0)\":0" }.joined(separator: ",") + "}",
            "[" + String(repeating: "[],", count: 300_000) + "0]",
            "\"" + String(repeating: "\\u0041", count: 170_000) + "\"",
            "[" + String(repeating: String(repeating: "9", count: 64) + ",", count: 15_000) + "0]",
        ]
        for text in texts {
            let bytes = Array(text.utf8)
            // If the work grew with the square of the size, a megabyte would take minutes.
            #expect(try clock.measure { _ = try JSONValue.parse(bytes) } < .seconds(10))
        }
    }

    @Test("Five thousand mutations of an event: refused or read, and what is read is written and read the same")
    func mutations() throws {
        let seedText = Array(
            #"{"event":"x\u00e9\n","n":[-1.5e3,{"a":null,"b":[true,false]}],"s":"\ud83d\ude42ä","m":{}}"#.utf8)
        for seed in UInt64(1)...5000 {
            var random = SeededRandom(seed: seed)
            var text = seedText
            for _ in 0..<Int.random(in: 1...3, using: &random) {
                let index = Int.random(in: text.indices, using: &random)
                switch Int.random(in: 0..<4, using: &random) {
                case 0: text[index] = UInt8.random(in: 0...255, using: &random)
                case 1: text.remove(at: index)
                case 2: text.insert(Array("\"\\[]{},:0e.-u".utf8).randomPick(&random), at: index)
                default: text.removeSubrange(index...)
                }
                if text.isEmpty { text = [0x30] }
            }
            guard let value = try? JSONValue.parse(text) else { continue }
            let again = try JSONValue.parse(Array(value.compact.utf8))
            #expect(again == value, "seed \(seed)")
        }
    }

    @Test("No error tells what was sent")
    func discretion() {
        #expect(error("{\"secret\":tru}")?.detail.contains("secret") == false)
        #expect(error("[1,]")?.detail == "Unexpected byte in JSON (byte 3).")
    }
}
