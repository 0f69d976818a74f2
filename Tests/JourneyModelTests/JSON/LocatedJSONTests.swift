// Tests of `LocatedJSON`, which parses JSON and records the position of each value and each name. It must accept the
// same texts as `JSONValue`.

import JourneyModel
import Testing

struct LocatedJSONTests {
    private let text = Array("{\n  \"a\": [1,\n    {\"b\": \"x\\n\"}],\n \"c\"\n : null}\n".utf8)

    private func line(_ offset: Int) -> Int { LocatedJSON.line(ofOffset: offset, in: text) }

    @Test func `every value and every name has its position`() throws {
        let document = try LocatedJSON.parse(text)
        guard case .object(let members) = document.content, case .array(let elements) = members[0].value.content,
            case .object(let inner) = elements[1].content
        else {
            Issue.record("unexpected form: \(document)")
            return
        }
        #expect(document.offset == 0 && members.map(\.name) == ["a", "c"])
        #expect(members.map { line($0.nameOffset) } == [2, 4] && members.map { line($0.value.offset) } == [2, 5])
        #expect(elements.map { line($0.offset) } == [2, 3] && elements[0].content == .scalar(.number("1")))
        #expect(line(inner[0].value.offset) == 3 && inner[0].value.content == .scalar(.string("x\n")))
        #expect(members[1].value.content == .scalar(.null))
    }

    @Test(arguments: [
        "", "{", "[1,]", #"{"a":1,"a":2}"#, "{\"a\":\u{1}}", "[1] x", #"["\ud800"]"#, "01", "tru",
        String(repeating: "[", count: 65) + String(repeating: "]", count: 65),
    ])
    func `what JSONValue rejects is rejected with the same error`(text: String) {
        let bytes = Array(text.utf8)
        var errors: [JSONError] = []
        do { _ = try JSONValue.parse(bytes) } catch { errors.append(error) }
        do { _ = try LocatedJSON.parse(bytes) } catch { errors.append(error) }
        #expect(errors.count == 2 && errors.first == errors.last, "\(errors)")
    }
}
