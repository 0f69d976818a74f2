// Reads arbitrary bytes as a list of trusted proxies, a peer, and lines of Forwarded and X-Forwarded-For. The server
// and a second implementation must find the same client address.
//
// A server trusts only one of the two fields, so the check runs once for each field. The server scans bytes; the second
// implementation splits texts.
//
// Input: the list of proxies in the first line, and the peer's address in the second. Each further line is `F`
// (Forwarded) or `X` (X-Forwarded-For), followed by the value.

import HTTP1
import HTTPServer

func fuzzTrustedProxies(_ input: [UInt8]) throws(Finding) {
    let lines = input.split(separator: 0x0A, maxSplits: 33, omittingEmptySubsequences: false)
        .map { line in String(decoding: line.map { $0 < 0x20 && $0 != 9 || $0 == 0x7F ? 0x20 : $0 }, as: UTF8.self) }
    guard lines.count >= 2 else { return }
    let list = lines[0].split(separator: ",", omittingEmptySubsequences: false).map(String.init)
    let reference = ReferenceProxies(list)
    let proxies = TrustedProxies(list)
    try require((proxies == nil) == (reference == nil), "The list is \(proxies == nil ? "refused" : "taken").")
    guard let proxies, let reference else { return }
    try require(TrustedProxies(proxies.items) == proxies, "The list that it prints means another one.")

    // A server gets a peer's address from accept(2), so it is an IP address, or "" for a Unix socket. Any other text in
    // the input counts as "".
    let peer = referenceNumber(lines[1]) == nil ? "" : lines[1]
    var fields = Fields()
    for line in lines.dropFirst(2) {
        if line.hasPrefix("F") { fields.append("Forwarded", String(line.dropFirst())) }
        if line.hasPrefix("X") { fields.append("x-forwarded-for", String(line.dropFirst())) }
    }
    for field in ForwardingField.allCases {
        var proxies = proxies
        proxies.field = field
        let client = proxies.clientAddress(peer: peer, fields).text
        if let expected = reference.client(peer, fields, field) {
            try require(referenceNumber(client) == expected, "The client is \(client), in the reference \(expected).")
        } else {
            try require(client == peer, "The client is \(client), in the reference the peer.")
        }
    }
}

extension TrustedProxies {
    fileprivate var items: [String] { description.isEmpty ? [] : description.split(separator: ",").map(String.init) }
}

private struct ReferenceProxies {
    /// The server reads at most this number of entries of a forwarding field, counted from the end of the field.
    private static let entriesMax = 32

    /// Each network as text: the digit 4 or 6 for the address family, then the bits as digits 0 and 1. A network
    /// contains an address if the network's text is a prefix of the address's text.
    private var prefixes: [String] = []
    private var unixSocket = false

    init?(_ list: [String]) {
        for item in list {
            if item == "unix" {
                unixSocket = true
                continue
            }
            let parts = item.components(separatedBy: "/")
            guard parts.count <= 2, let number = referenceNumber(parts[0]) else { return nil }
            var bits = Self.bits(number)
            if parts.count == 2 {
                guard (1...3).contains(parts[1].utf8.count), parts[1].utf8.allSatisfy({ (48...57).contains($0) }),
                    let count = Int(parts[1]), count < bits.count
                else { return nil }
                bits = String(bits.prefix(count + 1))
            }
            prefixes.append(bits)
        }
    }

    /// Returns the address as text: the digit 4 or 6 for its family, then its bits. The first digit keeps networks from
    /// matching addresses of the other family.
    private static func bits(_ number: [UInt8]) -> String {
        var bits = number.count == 4 ? "4" : "6"
        for byte in number {
            for place in (0..<8).reversed() { bits += byte >> place & 1 == 1 ? "1" : "0" }
        }
        return bits
    }

    private func trusts(_ number: [UInt8]?) -> Bool {
        guard let number else { return unixSocket }
        let bits = Self.bits(number)
        return prefixes.contains { bits.hasPrefix($0) }
    }

    /// Returns the client's address. Returns nil if the peer is not trusted, or if it is a trusted Unix socket and no
    /// address was forwarded.
    func client(_ peer: String, _ fields: Fields, _ field: ForwardingField) -> [UInt8]? {
        let peerNumber = peer.isEmpty ? nil : referenceNumber(peer)
        guard trusts(peerNumber) else { return nil }
        let chain: [[UInt8]?] =
            switch field {
            case .xForwardedFor:
                fields.values("X-Forwarded-For").joined(separator: ",").components(separatedBy: ",")
                    .filter { !$0.isEmpty }.suffix(Self.entriesMax)
                    .map(trimmed).filter { !$0.isEmpty }.map(node)
            case .forwarded: fields.values("Forwarded").flatMap { forwarded($0) ?? [nil] }.suffix(Self.entriesMax)
            }
        var client = peerNumber
        var rest = chain[...]
        while let last = rest.popLast(), let number = last {
            client = number
            if !trusts(number) { break }
        }
        return client
    }

    /// Returns one entry per element: the address in the element's `for`, or nil if there is none. Returns nil for the
    /// whole line if it violates RFC 7239.
    private func forwarded(_ line: String) -> [[UInt8]?]? {
        guard let elements = split(line, at: ",") else { return nil }
        var clients: [[UInt8]?] = []
        for element in elements {
            guard let pairs = split(element, at: ";") else { return nil }
            let given = pairs.map(trimmed).filter { !$0.isEmpty }
            if given.isEmpty { continue }
            var client: [UInt8]?
            for pair in given {
                guard let sign = pair.firstIndex(of: "=") else { return nil }
                let name = String(pair[..<sign])
                guard isToken(name), let value = value(String(pair[pair.index(after: sign)...])) else { return nil }
                if name.lowercased() == "for" { client = node(value) }
            }
            clients.append(client)
        }
        return clients
    }

    /// Splits the text at the separators that are outside of quoted strings. Returns nil if a quoted string is not
    /// closed.
    private func split(_ text: String, at separator: Unicode.Scalar) -> [String]? {
        var parts = [""]
        var isQuoted = false
        var isEscaped = false
        for scalar in text.unicodeScalars {
            if scalar == separator && !isQuoted {
                parts.append("")
                continue
            }
            parts[parts.count - 1].unicodeScalars.append(scalar)
            if isEscaped {
                isEscaped = false
            } else if isQuoted && scalar == "\\" {
                isEscaped = true
            } else if scalar == "\"" {
                isQuoted.toggle()
            }
        }
        return isQuoted ? nil : parts
    }

    private func value(_ text: String) -> String? {
        guard text.hasPrefix("\"") else { return isToken(text) ? text : nil }
        var value = ""
        var scalars = Array(text.unicodeScalars.dropFirst())[...]
        while let scalar = scalars.popFirst() {
            if scalar == "\"" { return scalars.isEmpty && !value.isEmpty ? value : nil }
            guard scalar == "\\" else {
                value.unicodeScalars.append(scalar)
                continue
            }
            guard let escaped = scalars.popFirst() else { return nil }
            value.unicodeScalars.append(escaped)
        }
        return nil
    }

    private func isToken(_ text: String) -> Bool {
        !text.isEmpty
            && text.utf8.allSatisfy { (0x21...0x7E).contains($0) && ![0x22, 0x2C, 0x3B, 0x3D].contains($0) }
    }

    /// Parses an IP address with an optional port. An IPv6 address with a port must be in brackets.
    private func node(_ text: String) -> [UInt8]? {
        if let number = referenceNumber(text) { return number }
        let isBracketed = text.utf8.first == UInt8(ascii: "[")
        let mark = isBracketed ? UInt8(ascii: "]") : UInt8(ascii: ":")
        guard let end = text.utf8.firstIndex(of: mark) else { return nil }
        var port = Array(text.utf8[end...])
        if isBracketed { port.removeFirst() }
        let isPort = port.isEmpty || port.first == 0x3A && (2...65).contains(port.count) && !port[1...].contains(0x3A)
        guard isPort else { return nil }
        return referenceNumber(String(decoding: text.utf8[..<end].dropFirst(isBracketed ? 1 : 0), as: UTF8.self))
    }
}

private func trimmed(_ text: String) -> String {
    let isSpace = { (byte: UInt8) in byte == 0x20 || byte == 9 }
    return String(decoding: text.utf8.drop(while: isSpace).reversed().drop(while: isSpace).reversed(), as: UTF8.self)
}

/// Parses an IPv6 address (RFC 4291 section 2.2) or an IPv4 address in dotted decimals, without system calls. An
/// IPv4-mapped IPv6 address becomes the IPv4 address.
private func referenceNumber(_ text: String) -> [UInt8]? {
    if let four = dotted(text) { return four }
    let halves = text.components(separatedBy: "::")
    guard halves.count <= 2, text.utf8.count <= 45 else { return nil }
    var groups: [[UInt8]] = []
    for (place, half) in halves.enumerated() {
        guard let bytes = sixteens(half, mayEndDotted: place == halves.count - 1) else { return nil }
        groups.append(bytes)
    }
    if groups.count == 2 {
        let gap = 16 - groups[0].count - groups[1].count
        guard gap >= 2 else { return nil }
        groups.insert([UInt8](repeating: 0, count: gap), at: 1)
    }
    let bytes = groups.flatMap { $0 }
    guard bytes.count == 16 else { return nil }
    let isMapped = bytes[..<10].allSatisfy { $0 == 0 } && bytes[10...11].allSatisfy { $0 == 0xFF }
    return isMapped ? Array(bytes[12...]) : bytes
}

private func sixteens(_ text: String, mayEndDotted: Bool) -> [UInt8]? {
    if text.isEmpty { return [] }
    let parts = text.components(separatedBy: ":")
    var bytes: [UInt8] = []
    for (place, part) in parts.enumerated() {
        if place == parts.count - 1, mayEndDotted, let four = dotted(part) { return bytes + four }
        guard (1...4).contains(part.utf8.count), part.utf8.allSatisfy(isHexadecimal),
            let value = UInt16(part, radix: 16)
        else { return nil }
        bytes += [UInt8(value >> 8), UInt8(value & 0xFF)]
    }
    return bytes
}

private func isHexadecimal(_ byte: UInt8) -> Bool {
    (48...57).contains(byte) || (97...102).contains(byte | 0x20)
}

private func dotted(_ text: String) -> [UInt8]? {
    let parts = text.components(separatedBy: ".")
    guard parts.count == 4 else { return nil }
    var bytes: [UInt8] = []
    for part in parts {
        guard (1...3).contains(part.utf8.count), part.utf8.allSatisfy({ (48...57).contains($0) }),
            let byte = UInt8(part), part.utf8.first != 48 || part.utf8.count == 1
        else { return nil }
        bytes.append(byte)
    }
    return bytes
}

extension String {
    /// Splits the text byte by byte. Foundation is not used, because it would split by graphemes.
    fileprivate func components(separatedBy separator: String) -> [String] {
        let (all, mark) = (Array(utf8), Array(separator.utf8))
        var parts: [[UInt8]] = [[]]
        var index = 0
        while index < all.count {
            if all[index...].starts(with: mark) {
                parts.append([])
                index += mark.count
            } else {
                parts[parts.count - 1].append(all[index])
                index += 1
            }
        }
        return parts.map { String(decoding: $0, as: UTF8.self) }
    }
}
