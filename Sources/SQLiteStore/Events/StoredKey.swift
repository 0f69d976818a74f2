// An idempotency key in the form of the column `event.key`. Most clients send UUIDs as keys. The 36 characters of a
// UUID become 16 bytes.

import Foundation
import GRDB
import JourneyModel

struct StoredKey: Equatable {
    private enum Form {
        /// A UUID in lower case is stored as its 16 bytes. A UUID in upper case is stored as 17 bytes: its 16 bytes and
        /// a zero.
        case lowercase
        case uppercase
        case text
    }

    private let form: Form
    private let text: String
    /// The UUID as two numbers. Their bytes in memory are the bytes of the UUID, in the same order. Both numbers are 0
    /// if the key is stored as text.
    private let uuid: (UInt64, UInt64)

    init(_ text: String) {
        self.text = text
        let scanned =
            text.utf8.withContiguousStorageIfAvailable(Self.scan) ?? Array(text.utf8).withUnsafeBufferPointer(Self.scan)
        form = scanned?.form ?? .text
        uuid = scanned.map { ($0.high.bigEndian, $0.low.bigEndian) } ?? (0, 0)
    }

    /// Returns the UUID if the bytes have the form of RFC 9562, section 4; otherwise nil. The letters must all be in
    /// lower case or all in upper case. A UUID without letters counts as lower case.
    private static func scan(_ bytes: UnsafeBufferPointer<UInt8>) -> (form: Form, high: UInt64, low: UInt64)? {
        guard bytes.count == 36 else { return nil }
        var (high, low): (UInt64, UInt64) = (0, 0)
        var (hasLowercase, hasUppercase) = (false, false)
        for (index, byte) in bytes.enumerated() {
            let digit: UInt8
            switch byte {
            case UInt8(ascii: "-"):
                guard index == 8 || index == 13 || index == 18 || index == 23 else { return nil }
                continue
            case UInt8(ascii: "0")...UInt8(ascii: "9"): digit = byte - UInt8(ascii: "0")
            case UInt8(ascii: "a")...UInt8(ascii: "f"):
                digit = byte - UInt8(ascii: "a") + 10
                hasLowercase = true
            case UInt8(ascii: "A")...UInt8(ascii: "F"):
                digit = byte - UInt8(ascii: "A") + 10
                hasUppercase = true
            default: return nil
            }
            guard index != 8, index != 13, index != 18, index != 23 else { return nil }
            high = high << 4 | low >> 60
            low = low << 4 | UInt64(digit)
        }
        if hasLowercase, hasUppercase { return nil }
        return (hasUppercase ? .uppercase : .lowercase, high, low)
    }

    /// Calls `body` with the stored bytes: those of the blob, or the UTF-8 of the text.
    func withBytes<Value>(_ body: (UnsafeRawBufferPointer) -> Value) -> Value {
        switch form {
        case .text:
            return text.utf8.withContiguousStorageIfAvailable { body(UnsafeRawBufferPointer($0)) }
                ?? Array(text.utf8).withUnsafeBytes(body)
        case .lowercase, .uppercase:
            let stored = (uuid.0, uuid.1, UInt8(0))
            return withUnsafeBytes(of: stored) {
                body(UnsafeRawBufferPointer(rebasing: $0[0..<(form == .lowercase ? 16 : 17)]))
            }
        }
    }

    /// Whether the key is stored as the bytes of a UUID.
    var isUUID: Bool { form != .text }

    /// Binds the key to a parameter of a `PreparedStatement`.
    func bind(to bindings: borrowing Bindings, at index: Int32) throws(SQLiteError) {
        if case .text = form { return try bindings.set(index, text) }
        try bindings.check(withBytes { bindings.bind(index, blob: $0) })
    }

    /// The key as an argument of a GRDB statement.
    var databaseValue: DatabaseValue {
        if case .text = form { return text.databaseValue }
        return withBytes { Data($0) }.databaseValue
    }

    static func == (one: StoredKey, other: StoredKey) -> Bool {
        one.form == other.form && one.uuid == other.uuid && (one.form != .text || haveSameBytes(one.text, other.text))
    }
}
