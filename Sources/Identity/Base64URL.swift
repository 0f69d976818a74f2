// base64url without padding (RFC 4648, section 5; RFC 7515, section 2).

import Foundation

package enum Base64URL {
    package static func text(of bytes: some Sequence<UInt8>) -> String {
        Data(bytes).base64EncodedString()
            .replacing("+", with: "-").replacing("/", with: "_").replacing("=", with: "")
    }

    /// Nil for a length that no encoding has, and for a character outside the alphabet.
    package static func bytes(of text: some StringProtocol) -> [UInt8]? {
        var standard = Data()
        standard.reserveCapacity(text.utf8.count + 3)
        for byte in text.utf8 {
            guard isInAlphabet(byte) else { return nil }
            switch byte {
            case UInt8(ascii: "-"): standard.append(UInt8(ascii: "+"))
            case UInt8(ascii: "_"): standard.append(UInt8(ascii: "/"))
            default: standard.append(byte)
            }
        }
        while standard.count % 4 != 0 { standard.append(UInt8(ascii: "=")) }
        return Data(base64Encoded: standard).map { Array($0) }
    }

    static func isInAlphabet(_ byte: UInt8) -> Bool {
        switch byte {
        case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
            UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "-"), UInt8(ascii: "_"):
            true
        default: false
        }
    }
}
