import Foundation
import Identity
import Testing

@Suite struct Base64URLTests {
    @Test("The vectors of RFC 4648, section 10, without padding")
    func vectors() {
        for (bytes, text) in [
            ("", ""), ("f", "Zg"), ("fo", "Zm8"), ("foo", "Zm9v"), ("foob", "Zm9vYg"), ("fooba", "Zm9vYmE"),
            ("foobar", "Zm9vYmFy"),
        ] {
            #expect(Base64URL.text(of: bytes.utf8) == text)
            #expect(Base64URL.bytes(of: text) == Array(bytes.utf8))
        }
    }

    @Test("Every length and every byte, compared with Foundation's other alphabet")
    func foundation() {
        for count in 0...257 {
            let bytes = (0..<count).map { UInt8(truncatingIfNeeded: $0 &* 151 &+ count) }
            let expected = Data(bytes).base64EncodedString()
                .replacing("+", with: "-").replacing("/", with: "_").replacing("=", with: "")
            #expect(Base64URL.text(of: bytes) == expected)
            #expect(Base64URL.text(of: bytes.lazy.map { $0 }) == expected)
            #expect(Base64URL.bytes(of: expected, isCanonical: true) == bytes)
            #expect(Base64URL.bytes(of: "." + expected + "."[...]) == nil)
        }
    }

    @Test("A length that no encoding has, and each byte outside the alphabet at each place, is rejected")
    func invalid() {
        #expect(Base64URL.bytes(of: "A") == nil)
        #expect(Base64URL.bytes(of: "AAAAA") == nil)
        let alphabet = Set("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_".utf8)
        for length in [2, 3, 4, 6, 8] {
            for place in 0..<length {
                for byte in UInt8.min...UInt8(127) where !alphabet.contains(byte) {
                    var text = Array(repeating: UInt8(ascii: "A"), count: length)
                    text[place] = byte
                    #expect(Base64URL.bytes(of: String(decoding: text, as: UTF8.self)) == nil)
                }
            }
        }
        #expect(Base64URL.bytes(of: "ÄÄ") == nil)
    }

    @Test("Unused bits that are not zero are rejected in the canonical form only")
    func unusedBits() {
        for (text, bytes) in [("Zh", "f"), ("Zm9", "fo")] {
            #expect(Base64URL.bytes(of: text) == Array(bytes.utf8))
            #expect(Base64URL.bytes(of: text, isCanonical: true) == nil)
        }
    }
}
