// Compares each byte set with the grammar, which the tests spell out.

import Testing

@testable import HTTP1

@Suite struct GrammarTests {
    private static let letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
    private static let digits = "0123456789"
    private static let unreserved = letters + digits + "-._~"
    private static let subDelims = "!$&'()*+,;="

    @Test func tcharIsThatOfRFC9110Section5_6_2() {
        check(Grammar.tokenBytes, "!#$%&'*+-.^_`|~" + Self.digits + Self.letters)
    }

    @Test func pathBytesArePcharAndSlash() {
        check(Grammar.pathBytes, Self.unreserved + Self.subDelims + ":@/")
    }

    @Test func queryBytesAddTheQuestionMark() {
        check(Grammar.queryBytes, Self.unreserved + Self.subDelims + ":@/?")
    }

    @Test func registeredNamesAreUnreservedAndSubDelims() {
        check(Grammar.registeredNameBytes, Self.unreserved + Self.subDelims)
    }

    @Test func fieldValuesTakeTabAndEverythingFromSpaceUpButDEL() {
        for byte in UInt8.min...UInt8.max {
            let allowed = byte == 0x09 || (0x20...0x7E).contains(byte) || byte >= 0x80
            #expect(Grammar.isFieldValueByte(byte) == allowed, "byte \(byte)")
        }
    }

    /// The implementation checks eight bytes at a time, so each byte is tested at every position of short and long
    /// values.
    @Test func aValueIsOnlyAsGoodAsEachOfItsBytes() {
        for length in [1, 7, 8, 9, 17] {
            for place in 0..<length {
                var bytes = [UInt8](repeating: 0xFF, count: length + 2)
                for byte in UInt8.min...UInt8.max {
                    bytes[place + 1] = byte
                    let isGood = Grammar.areFieldValueBytes(bytes, 1..<(length + 1))
                    #expect(isGood == Grammar.isFieldValueByte(byte), "byte \(byte) at \(place) of \(length)")
                }
                bytes = [UInt8](repeating: 0x09, count: length)
                bytes[place] = 0x7F
                #expect(!Grammar.areFieldValueBytes(bytes, 0..<length))
            }
        }
        #expect(Grammar.areFieldValueBytes([0], 1..<1))
    }

    @Test func aLineEndsAtTheFirstLineFeed() {
        for length in 0...20 {
            for start in 0...length {
                for place in start..<max(start, length) {
                    var bytes = [UInt8](repeating: 0x0B, count: length)
                    bytes[place] = 0x0A
                    if place + 2 < length { bytes[place + 2] = 0x0A }
                    if start > 0 { bytes[start - 1] = 0x0A }
                    #expect(Grammar.endOfLine(bytes, from: start) == place)
                }
                let none = [UInt8](repeating: 0x8A, count: length)
                #expect(Grammar.endOfLine(none, from: start) == length)
            }
        }
    }

    @Test func hexadecimalDigitsAreTwentyTwo() {
        for byte in UInt8.min...UInt8.max {
            let text = String(UnicodeScalar(byte))
            #expect(Grammar.hexValue(byte) == (byte < 0x80 ? UInt8(text, radix: 16) : nil), "byte \(byte)")
        }
    }

    private func check(_ set: ByteSet, _ allowed: String) {
        for byte in UInt8.min...UInt8.max {
            #expect(set.contains(byte) == allowed.utf8.contains(byte), "byte \(byte)")
        }
    }
}
