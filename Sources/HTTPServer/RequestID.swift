internal import HTTP1
internal import Synchronization

enum RequestID {
    /// The client's own, when there is one that may be taken over, else a new one.
    static func of(_ fields: Fields) -> String {
        fields.first("X-Request-Id").flatMap { isWellFormed($0) ? $0 : nil } ?? make()
    }

    /// A client's own id is taken over when it can do no harm in a log or a field: `[A-Za-z0-9._-]{1,128}`.
    static func isWellFormed(_ text: String) -> Bool {
        (1...128).contains(text.utf8.count) && text.utf8.allSatisfy(isAllowed)
    }

    private static func isAllowed(_ byte: UInt8) -> Bool {
        switch byte {
        case UInt8(ascii: "A")...UInt8(ascii: "Z"), UInt8(ascii: "a")...UInt8(ascii: "z"): true
        case UInt8(ascii: "0")...UInt8(ascii: "9"): true
        case UInt8(ascii: "."), UInt8(ascii: "_"), UInt8(ascii: "-"): true
        default: false
        }
    }

    /// Unique among processes by its random first half, within the process by the count. Not a secret.
    static func make() -> String {
        let number = count.wrappingAdd(1, ordering: .relaxed).oldValue
        return process + String(number, radix: 36)
    }

    private static let process = String(UInt64.random(in: .min ... .max), radix: 36) + "-"
    private static let count = Atomic<UInt64>(0)
}
