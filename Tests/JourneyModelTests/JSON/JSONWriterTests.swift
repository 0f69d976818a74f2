// Tests of compact JSON: it has the necessary commas, and escapes only the characters that RFC 8259, section 7,
// requires.

import JourneyModel
import Testing

struct JSONWriterTests {
    @Test("Commas and colons stand between values, however they are nested")
    func structure() {
        var writer = JSONWriter()
        writer.beginObject()
        writer.name("a")
        writer.beginArray()
        writer.integer(1)
        writer.beginObject()
        writer.endObject()
        writer.beginArray()
        writer.endArray()
        writer.null()
        writer.endArray()
        writer.name("b")
        writer.bool(true)
        writer.name("c")
        writer.raw("1.50")
        writer.endObject()
        #expect(String(decoding: writer.bytes, as: UTF8.self) == #"{"a":[1,{},[],null],"b":true,"c":1.50}"#)
    }

    @Test("Quote, backslash and control characters are escaped, all else is sent as it is")
    func escapes() {
        #expect(JSONValue.string("a\"b\\c/d").compact == #""a\"b\\c/d""#)
        #expect(JSONValue.string("\u{08}\u{0C}\n\r\t").compact == #""\b\f\n\r\t""#)
        #expect(JSONValue.string("\u{0}\u{1B}\u{1F}x").compact == #""\u0000\u001b\u001fx""#)
        #expect(JSONValue.string("\u{7F}é\u{1F642}\u{2028}").compact == "\"\u{7F}é\u{1F642}\u{2028}\"")
    }

    @Test("Every ASCII character reads back")
    func roundTrip() throws {
        let text = String(String.UnicodeScalarView((0..<128).compactMap { Unicode.Scalar(UInt8($0)) })) + "ä🙂"
        let value = JSONValue.object([JSONMember(text, .string(text))])
        #expect(try JSONValue.parse(Array(value.compact.utf8)) == value)
    }
}
