// Tests that `traceparent` is parsed as in W3C Trace Context, section 3.2. The example is from this specification.

import StructuredLogging
import Testing

@Suite struct TraceParentTests {
    static let example = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"

    @Test func theSpecificationsExample() throws {
        let parent = try #require(TraceParent(Self.example))
        #expect(parent.traceIDText == "4bf92f3577b34da6a3ce929d0e0e4736")
        #expect(parent.parentID == 0x00f0_67aa_0ba9_02b7)
        #expect(parent.flags == 1)
        #expect(parent.description == Self.example)
    }

    @Test(arguments: [
        "cc-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
        "cc-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01-what-the-future-brings",
    ])
    func aLaterVersionIsReadByItsFirstPart(value: String) {
        #expect(TraceParent(value)?.description == Self.example)
    }

    @Test(arguments: [
        "", "-", "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7",
        "ff-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
        "00-00000000000000000000000000000000-00f067aa0ba902b7-01",
        "00-4bf92f3577b34da6a3ce929d0e0e4736-0000000000000000-01",
        "00-4BF92F3577B34DA6A3CE929D0E0E4736-00F067AA0BA902B7-01",
        "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01-more",
        "cc-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01.more",
        "00-4bf92f3577b34da6a3ce929d0e0e473g-00f067aa0ba902b7-01",
        "00_4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
        "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-0\u{1F697}",
        " 00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
    ])
    func whatIsNotOneIsNil(value: String) {
        #expect(TraceParent(value) == nil)
    }

    @Test func anEndlessFieldIsNotOne() {
        #expect(TraceParent("cc" + Self.example.dropFirst(2) + "-" + String(repeating: "a", count: 100_000)) == nil)
    }
}
