// Parses arbitrary bytes as a request target. A second decoder for origin-form must reject the same targets and return
// the same paths. The second decoder splits a path before it decodes the segments.
//
// An accepted path is also encoded and parsed again. The result must be the same path, because a path has only one form
// (RequestTarget).
//
// Input: one byte for the method, then the target.

import HTTP1

func fuzzRequestTarget(_ input: [UInt8]) throws(Finding) {
    guard let first = input.first else { return }
    let method = ["GET", "OPTIONS", "HEAD", "CONNECT"][Int(first & 3)]
    let target = Array(input.dropFirst())
    // Skip a target with a line feed. The line feed would end the request line, and the rest of the target would be
    // read as fields.
    if target.contains(UInt8(ascii: "\n")) { return }
    let head = requestHead(of: target, method)
    if let head {
        try HeadPromises(head, Limits()).check()
        let plain = percentEncoded(head.path) + (head.query.map { "?" + $0 } ?? "")
        let again = requestHead(of: Array(plain.utf8), method)
        try require(again?.path.utf8.elementsEqual(head.path.utf8) == true, "Another path, or none.")
        try require(again?.query == head.query, "Another query.")
    }
    guard target.first == UInt8(ascii: "/"), method != "CONNECT", target.count < 8000 else { return }
    let expected = ReferenceTarget(target)
    guard let head, let expected else {
        return try require(head == nil && expected == nil, "\(head == nil ? "Refused" : "Accepted") against the rule.")
    }
    try require(Array(head.path.utf8) == expected.path, "A path decoded otherwise.")
    try require(head.query.map { Array($0.utf8) } == expected.query, "A query read otherwise.")
}

private func requestHead(of target: [UInt8], _ method: String) -> RequestHead? {
    var connection = ServerConnection()
    connection.receive(Array("\(method) ".utf8) + target + Array(" HTTP/1.1\r\nHost: a\r\n\r\n".utf8))
    guard case .head(let head) = connection.nextEvent() else { return nil }
    return head
}

/// Percent-encodes every byte other than ASCII letters, digits and `-`, `.`, `_`, `~` and `/`. Returns the path `*`
/// unchanged.
func percentEncoded(_ path: String) -> String {
    if path == "*" { return path }
    let plain = Array("-._~/".utf8)
    var text = ""
    for byte in path.utf8 {
        let character = Character(Unicode.Scalar(byte))
        let hex = String(byte, radix: 16, uppercase: true)
        if character.isASCIIAlphanumeric || plain.contains(byte) {
            text.append(character)
        } else {
            text += "%" + (hex.count == 1 ? "0" : "") + hex
        }
    }
    return text
}

/// A target in the form `absolute-path [ "?" query ]`, decoded by RFC 3986. The initializer returns nil for the reasons
/// that RequestTarget lists.
private struct ReferenceTarget {
    var path: [UInt8] = []
    var query: [UInt8]?

    init?(_ target: [UInt8]) {
        let parts = target.split(separator: UInt8(ascii: "?"), maxSplits: 1, omittingEmptySubsequences: false)
        if parts.count == 2 {
            guard Self.decoded(parts[1], extra: "/?") != nil else { return nil }
            query = Array(parts[1])
        }
        let segments = parts[0].dropFirst().split(separator: UInt8(ascii: "/"), omittingEmptySubsequences: false)
        for (index, segment) in segments.enumerated() {
            guard let decoded = Self.decoded(segment, extra: ""), !segment.isEmpty || index == segments.count - 1
            else { return nil }
            let isForbidden = decoded.contains { $0 < 0x20 || $0 == 0x7F || $0 == 0x2F || $0 == 0x5C }
            if isForbidden || decoded == [0x2E] || decoded == [0x2E, 0x2E] { return nil }
            path += [UInt8(ascii: "/")] + decoded
        }
        if String(validating: path, as: UTF8.self) == nil { return nil }
    }

    /// Decodes the triplets of `*( unreserved / pct-encoded / sub-delims / ":" / "@" / extra )`. Returns nil for text
    /// that does not match this grammar.
    private static func decoded(_ text: ArraySlice<UInt8>, extra: String) -> [UInt8]? {
        let marks = Array(("-._~!$&'()*+,;=:@" + extra).utf8)
        var decoded: [UInt8] = []
        var rest = text
        while let byte = rest.popFirst() {
            if byte == UInt8(ascii: "%") {
                let digits = rest.prefix(2)
                let areDigits = digits.count == 2 && digits.allSatisfy { Character(Unicode.Scalar($0)).isASCIIHex }
                guard areDigits, let value = UInt8(String(decoding: digits, as: UTF8.self), radix: 16)
                else { return nil }
                decoded.append(value)
                rest = rest.dropFirst(2)
            } else if marks.contains(byte) || Character(Unicode.Scalar(byte)).isASCIIAlphanumeric {
                decoded.append(byte)
            } else {
                return nil
            }
        }
        return decoded
    }
}

extension Character {
    fileprivate var isASCIIHex: Bool { isASCII && isHexDigit }
    fileprivate var isASCIIAlphanumeric: Bool { isASCII && (isLetter || isNumber) }
}
