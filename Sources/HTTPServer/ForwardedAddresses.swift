// Parses Forwarded (RFC 7239) and X-Forwarded-For. Each proxy appends the address from which it received the request.
// The last address was therefore added by the proxy nearest to this server. TrustedProxies decides which proxies are
// trusted.

internal import HTTP1
internal import Sockets

/// The peer address that one proxy recorded. Nil if the entry is malformed, or is a word instead of an IP address
/// (`unknown`, `_hidden`).
typealias ForwardedAddress = IPAddress?

enum ForwardedAddresses {
    /// The maximum number of entries to read: the last entries of the field. No deployment has more proxies in front of
    /// the server.
    private static let chainMax = 32

    /// Returns the addresses in X-Forwarded-For. Some proxies add a port to the address; the port is ignored.
    static func xForwardedFor(_ fields: Fields) -> [ForwardedAddress] {
        fields.values("X-Forwarded-For").flatMap { $0.utf8.split(separator: UInt8(ascii: ",")) }
            .suffix(chainMax)
            .map { $0.trimmed }.filter { !$0.isEmpty }.map(node)
    }

    /// Returns the address in the `for` parameter of each element of Forwarded; nil for an element without `for`. A
    /// line that violates RFC 7239 counts as one element without an address, because it is unknown which proxy wrote
    /// which part.
    static func forwarded(_ fields: Fields) -> [ForwardedAddress] {
        fields.values("Forwarded").flatMap { line -> [[UInt8]?] in
            var reading = ForwardedReading(Array(line.utf8))
            return reading.elements() ?? [nil]
        }.suffix(chainMax).map { $0.flatMap(node) }
    }

    /// Parses a node (RFC 7239 section 6): an IPv4 address, or an IPv6 address in brackets, with an optional port. Also
    /// accepts an IPv6 address without brackets, which is common in X-Forwarded-For.
    static func node(_ bytes: some Collection<UInt8>) -> ForwardedAddress {
        // Search bytes instead of Characters. A colon followed by a combining mark is one Character, which is not equal
        // to ":".
        let text = String(decoding: bytes, as: UTF8.self)
        if let number = IPAddress(text) { return number }
        let utf8 = text.utf8
        let isBracketed = utf8.first == UInt8(ascii: "[")
        guard let end = utf8.firstIndex(of: UInt8(ascii: isBracketed ? "]" : ":")),
            isPort(utf8[end...].dropFirst(isBracketed ? 1 : 0))
        else { return nil }
        return IPAddress(String(decoding: utf8[..<end].dropFirst(isBracketed ? 1 : 0), as: UTF8.self))
    }

    /// Returns whether the text is empty, or a colon and a port. A proxy may hide the port number behind a name (RFC
    /// 7239 section 6). Any 1 to 64 bytes without a colon are therefore accepted as a port.
    private static func isPort(_ text: Substring.UTF8View) -> Bool {
        let colon = UInt8(ascii: ":")
        return text.isEmpty || text.first == colon && (2...65).contains(text.count) && !text.dropFirst().contains(colon)
    }
}

extension Collection<UInt8> {
    /// Without optional whitespace at both ends (RFC 9110 section 5.6.3).
    fileprivate var trimmed: [UInt8] {
        Array(drop(while: \.isOptionalWhitespace).reversed().drop(while: \.isOptionalWhitespace).reversed())
    }
}

/// One line of Forwarded: `Forwarded = 1#( [ pair ] *( ";" [ pair ] ) )`, `pair = token "=" ( token / quoted-string )`.
private struct ForwardedReading {
    private let bytes: [UInt8]
    private var index = 0

    init(_ bytes: [UInt8]) {
        self.bytes = bytes
    }

    /// Returns the value of the `for` parameter of each element; nil for an element without `for`. If the line violates
    /// the grammar, the whole result is nil.
    mutating func elements() -> [[UInt8]?]? {
        var elements: [[UInt8]?] = []
        var hasPairs = false
        var client: [UInt8]?
        while true {
            skipSpace()
            if let pair = pair() {
                hasPairs = true
                if pair.name == "for" { client = pair.value }
                skipSpace()
            }
            let separator = index < bytes.count ? bytes[index] : UInt8(ascii: ",")
            switch separator {
            case UInt8(ascii: ";"): break
            case UInt8(ascii: ","):
                if hasPairs { elements.append(client) }
                (hasPairs, client) = (false, nil)
            default: return nil
            }
            if index >= bytes.count { return elements }
            index += 1
        }
    }

    private mutating func pair() -> (name: String, value: [UInt8])? {
        let start = index
        let name = token()
        guard !name.isEmpty, take(UInt8(ascii: "=")) else {
            index = start
            return nil
        }
        guard let value = index < bytes.count && bytes[index] == UInt8(ascii: "\"") ? quoted() : token(), !value.isEmpty
        else {
            index = start
            return nil
        }
        return (String(decoding: name, as: UTF8.self).lowercased(), value)
    }

    /// Reads a token (RFC 9110 section 5.6.2), but accepts all printable ASCII except `,`, `;`, `=` and `"`. A value
    /// such as `[2001:db8::1]` should be quoted, but some proxies omit the quotes.
    private mutating func token() -> [UInt8] {
        let start = index
        while index < bytes.count, (0x21...0x7E).contains(bytes[index]), !isDelimiter(bytes[index]) { index += 1 }
        return Array(bytes[start..<index])
    }

    private func isDelimiter(_ byte: UInt8) -> Bool {
        switch byte {
        case UInt8(ascii: ","), UInt8(ascii: ";"), UInt8(ascii: "="), UInt8(ascii: "\""): true
        default: false
        }
    }

    /// Reads a quoted-string (RFC 9110 section 5.6.4). Returns nil if the closing quote is missing.
    private mutating func quoted() -> [UInt8]? {
        var value: [UInt8] = []
        index += 1
        while index < bytes.count {
            let byte = bytes[index]
            index += 1
            if byte == UInt8(ascii: "\"") { return value }
            guard byte == UInt8(ascii: "\\") else {
                value.append(byte)
                continue
            }
            guard index < bytes.count else { return nil }
            value.append(bytes[index])
            index += 1
        }
        return nil
    }

    private mutating func take(_ byte: UInt8) -> Bool {
        guard index < bytes.count, bytes[index] == byte else { return false }
        index += 1
        return true
    }

    private mutating func skipSpace() {
        while index < bytes.count, bytes[index].isOptionalWhitespace { index += 1 }
    }
}
