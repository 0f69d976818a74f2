// Tests that `Fields` keeps repeated lines and their order, and that it compares names without regard to case.

import HTTP1
import Testing

@Suite struct FieldsTests {
    @Test func namesCompareInAnyCaseOfASCIIOnly() {
        let fields = Fields([("Content-Type", "a"), ("X_Y", "b"), ("K", "c")])
        #expect(fields.first("content-TYPE") == "a")
        #expect(fields.first("Content-Typ") == nil)
        // These names must not match. "_" and DEL differ only in the bit that distinguishes upper and lower case
        // letters. The Kelvin sign equals "k" in Unicode's comparison without regard to case, but not in ASCII's.
        #expect(fields.first("X\u{7F}Y") == nil)
        #expect(fields.first("\u{212A}") == nil)
    }

    @Test func repeatsAreKeptInOrder() {
        var fields = Fields([("A", "1"), ("B", "2")])
        fields.append("a", "3")
        #expect(fields.values("A") == ["1", "3"])
        #expect(fields.first("a") == "1")
        #expect(fields.all.map(\.name) == ["A", "B", "a"])
        #expect(fields.count == 3 && !fields.isEmpty)
    }

    @Test func nothingThatEndsALineIsKept() {
        let fields = Fields([("A", "1\r\nB: 2"), ("", "x"), ("a b", "x"), ("C:", "x"), ("D", "")])
        #expect(fields.all == [.init(name: "A", value: "1  B: 2"), .init(name: "D", value: "")])
    }

    @Test func aValueIsLentAsItsBytes() {
        let fields = Fields([("A", "1"), ("B", "22"), ("b", "3")])
        #expect(fields.value("b").map(Array.init) == Array("22".utf8))
        #expect(fields.value("c") == nil)
    }

    @Test func settingReplacesEveryRepeat() {
        var fields = Fields([("A", "1"), ("B", "2"), ("a", "3")])
        fields.set("A", "4")
        #expect(fields == Fields([("B", "2"), ("A", "4")]))
        fields.remove("b")
        #expect(fields == Fields([("A", "4")]))
    }
}
