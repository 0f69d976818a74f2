// The request target (RFC 9112 section 3.2) and the canonical form in which a path reaches a handler.
//
// ```
// request-target = origin-form / absolute-form / authority-form / asterisk-form
// ```
//
// Paths are percent-decoded once. A path that two servers could read as different resources is rejected with 400. If
// such a path were accepted, a proxy might check one resource, and this server would serve another.
//
// The following are rejected:
//
//   - "." and ".." as a segment, plain or encoded; clients resolve them before they send a request (RFC 3986 section
//     5.2.4)
//   - an empty segment ("//"); a single "/" at the end is accepted, but "/a/" and "/a" are different paths
//   - %2F and %5C, which are encoded separators
//   - %00 to %1F and %7F, which are encoded control characters and corrupt logs
//   - bytes that are not UTF-8 after decoding
//
// Every path therefore has only one form: "/a%62c" and "/abc" both arrive as "/abc". The query is checked but not
// decoded, because the meaning of "+" depends on the parameter.

struct RequestTarget: Sendable {
    var path: String
    var query: String?
    /// The authority of a target in absolute-form. Nil for targets in other forms: their authority is in Host.
    var authority: String?

    static func parse(_ bytes: [UInt8], _ range: Range<Int>, method: Method) throws(Refusal) -> RequestTarget {
        guard let first = range.first else { throw malformed }
        if method == .connect { throw refusalOfConnect(bytes, range) }
        if bytes[first] == UInt8(ascii: "/") {
            return try originForm(bytes, range)
        }
        if bytes[first] == UInt8(ascii: "*"), range.count == 1 {
            guard method == .options else {
                throw Refusal(.badRequest, "The target * is allowed only with OPTIONS.")
            }
            return RequestTarget(path: "*")
        }
        return try absoluteForm(bytes, range, method: method)
    }

    private static let malformed = Refusal(.badRequest, "The request target is malformed.")

    /// Returns the refusal of CONNECT (RFC 9110 section 9.3.6), because this server opens no tunnels. The target of
    /// CONNECT has the form `authority-form = uri-host ":" port`.
    ///
    /// The refusal closes the connection: the client may already have sent bytes for the tunnel, and these bytes are
    /// not HTTP.
    private static func refusalOfConnect(_ bytes: [UInt8], _ range: Range<Int>) -> Refusal {
        guard Authority.isValid(bytes, range), let last = range.last, Grammar.isDigit(bytes[last]),
            Grammar.firstIndex(of: UInt8(ascii: ":"), bytes, range) != nil
        else { return malformed }
        return Refusal(.notImplemented, "CONNECT is not implemented.")
    }

    /// Parses `absolute-form = absolute-URI`. Only http and https are accepted. The authority of the URI replaces Host
    /// (RFC 9112 section 3.2.2).
    private static func absoluteForm(
        _ bytes: [UInt8], _ range: Range<Int>, method: Method
    ) throws(Refusal) -> RequestTarget {
        guard let colon = Grammar.firstIndex(of: UInt8(ascii: ":"), bytes, range) else { throw malformed }
        let scheme = range.lowerBound..<colon
        guard Grammar.matches(bytes, scheme, "http") || Grammar.matches(bytes, scheme, "https"),
            Grammar.matches(bytes, colon..<min(colon + 3, range.upperBound), "://")
        else { throw malformed }
        var end = colon + 3
        while end < range.upperBound, bytes[end] != UInt8(ascii: "/"), bytes[end] != UInt8(ascii: "?") { end += 1 }
        guard Authority.isValid(bytes, (colon + 3)..<end) else { throw malformed }

        var target = try originForm(bytes, end..<range.upperBound)
        if target.path.isEmpty {
            // An empty path means "/" (RFC 9110 section 4.2.3). In an OPTIONS request without a query, an empty path
            // means "*" (RFC 9112 section 3.2.4).
            target.path = method == .options && target.query == nil ? "*" : "/"
        }
        target.authority = Grammar.text(bytes, (colon + 3)..<end)
        return target
    }

    /// Parses `origin-form = absolute-path [ "?" query ]`. Also accepts an empty path, which an absolute-form may have.
    private static func originForm(_ bytes: [UInt8], _ range: Range<Int>) throws(Refusal) -> RequestTarget {
        guard let mark = Grammar.firstIndex(of: UInt8(ascii: "?"), bytes, range) else {
            return RequestTarget(path: try decodedPath(bytes, range))
        }
        let query = (mark + 1)..<range.upperBound
        guard isQuery(bytes, query) else { throw malformed }
        return RequestTarget(
            path: try decodedPath(bytes, range.lowerBound..<mark), query: Grammar.text(bytes, query))
    }

    private static func isQuery(_ bytes: [UInt8], _ range: Range<Int>) -> Bool {
        var index = range.lowerBound
        while index < range.upperBound {
            if Grammar.queryBytes.contains(bytes[index]) {
                index += 1
            } else if PercentEncoding.byte(bytes, at: index, before: range.upperBound) != nil {
                index += 3
            } else {
                return false
            }
        }
        return true
    }

    private static func decodedPath(_ bytes: [UInt8], _ range: Range<Int>) throws(Refusal) -> String {
        if Grammar.allBytes(bytes, range, in: Grammar.pathBytes) {
            try requirePlainSegments(bytes, range)
            return Grammar.text(bytes, range)
        }
        var decoded: [UInt8] = []
        decoded.reserveCapacity(range.count)
        var index = range.lowerBound
        while index < range.upperBound {
            if Grammar.pathBytes.contains(bytes[index]) {
                decoded.append(bytes[index])
                index += 1
            } else if let byte = PercentEncoding.byte(bytes, at: index, before: range.upperBound) {
                guard isAllowedDecoded(byte) else {
                    throw Refusal(.badRequest, "The path contains an encoded separator or control character.")
                }
                decoded.append(byte)
                index += 3
            } else {
                throw malformed
            }
        }
        try requirePlainSegments(decoded, decoded.indices)
        guard let path = String(validating: decoded, as: UTF8.self) else {
            throw Refusal(.badRequest, "The path is not UTF-8.")
        }
        return path
    }

    private static func isAllowedDecoded(_ byte: UInt8) -> Bool {
        byte >= 0x20 && byte != 0x7F && byte != UInt8(ascii: "/") && byte != UInt8(ascii: "\\")
    }

    /// Throws if a segment is "." or "..", or if a segment other than the last is empty.
    private static func requirePlainSegments(_ bytes: [UInt8], _ range: Range<Int>) throws(Refusal) {
        guard !range.isEmpty else { return }
        var lower = range.lowerBound + 1
        while lower <= range.upperBound {
            let slash = Grammar.firstIndex(of: UInt8(ascii: "/"), bytes, lower..<range.upperBound)
            let segment = lower..<(slash ?? range.upperBound)
            let isDots = segment.count <= 2 && segment.allSatisfy { bytes[$0] == UInt8(ascii: ".") }
            guard segment.isEmpty ? slash == nil : !isDots else {
                throw Refusal(.badRequest, "The path contains an empty or a dot segment.")
            }
            lower = segment.upperBound + 1
        }
    }
}
