// The byte sets, checked against the grammar they quote, for all 256 bytes.

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
