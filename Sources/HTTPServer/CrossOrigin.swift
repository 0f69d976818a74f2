// Cross-origin requests: which web pages may call this server from a browser and read its responses (the Fetch
// standard, "HTTP-CORS protocol": https://fetch.spec.whatwg.org/#http-cors-protocol). Only this file handles these
// fields. Every response gets them before it is encoded, including responses without a handler (Middleware.swift).

internal import HTTP1

package struct CrossOrigin: Hashable, Sendable {
    /// The maximum number of origins, more than any deployment lists. Limited because each request is compared with all
    /// origins.
    package static let originsMax = 64

    /// The allowed origins, as a browser sends them in `Origin`. Never empty.
    package let origins: [String]

    /// Returns nil if an element is not an origin as a browser sends it, or if there are none or too many. `*` and
    /// `null` are not accepted: responses allow credentials, for which the standard requires exact origins.
    package init?(_ origins: [String]) {
        guard (1...Self.originsMax).contains(origins.count), origins.allSatisfy(Self.isSerializedOrigin) else {
            return nil
        }
        self.origins = origins
    }

    // MARK: Answers

    /// Response fields that a page may read, in addition to those that every page may.
    private static let exposedFields =
        "RateLimit, RateLimit-Policy, Retry-After, ETag, X-Request-Id, Idempotent-Replayed"

    /// Adds the CORS fields to the response to this request. Every response gets `Vary: Origin`, even without an
    /// allowed origin: otherwise a cache in between could serve one page's response to another.
    func allow(_ request: Fields, in answer: inout Fields) {
        answer.append("Vary", "Origin")
        guard let origin = allowedOrigin(of: request) else { return }
        answer.append("Access-Control-Allow-Origin", origin)
        // This field is for pages that call with `credentials: "include"`. The server reads no cookies.
        answer.append("Access-Control-Allow-Credentials", "true")
        answer.append("Access-Control-Expose-Headers", Self.exposedFields)
    }

    private func allowedOrigin(of request: Fields) -> String? {
        guard let value = request.only("Origin") else { return nil }
        return origins.first { $0.utf8.elementsEqual(value) }
    }

    // MARK: Preflights

    /// The time that a browser may cache the response to a preflight: two hours, the maximum of Chromium.
    private static let keptSeconds = 7200
    /// The fields that the server reads, and those that tracing libraries add to every request.
    private static let requestFields =
        "Authorization, Content-Type, Content-Encoding, Idempotency-Key, If-None-Match, Last-Event-ID, X-Request-Id, "
        + "X-Sent-At, X-Requested-With, Cache-Control, traceparent, tracestate, baggage"

    /// Returns the fields of the response to a preflight from an allowed page; nil if the request is no such preflight.
    /// They are the same for every path, known or not, so that the page sends its request and can read the 404 or 405
    /// that a refused preflight would hide. `methods`: the methods that the server accepts on any path.
    func preflightAnswer(_ method: Method, _ request: Fields, methods: String) -> Fields? {
        guard method == .options, request.count(of: "Access-Control-Request-Method") == 1,
            allowedOrigin(of: request) != nil
        else { return nil }
        return Fields([
            ("Access-Control-Allow-Methods", methods),
            ("Access-Control-Allow-Headers", Self.requestFields),
            ("Access-Control-Max-Age", String(Self.keptSeconds)),
        ])
    }

    // MARK: Origins

    /// Returns whether the text is `scheme://host[:port]` in the form that browsers send (HTML standard, "ASCII
    /// serialization of an origin"): lower case, no default port, nothing after the port. Any other form would never
    /// match.
    static func isSerializedOrigin(_ text: String) -> Bool {
        guard text.utf8.count <= 256, let separator = text.firstRange(of: "://") else { return false }
        let scheme = text[..<separator.lowerBound].utf8
        guard let first = scheme.first, isLowercaseLetter(first),
            scheme.allSatisfy({ isLowercaseLetter($0) || isDigit($0) || "+-.".utf8.contains($0) })
        else { return false }
        let authority = text[separator.upperBound...].utf8
        let hostEnd: Substring.UTF8View.Index
        if authority.first == UInt8(ascii: "[") {
            guard let bracket = authority.firstIndex(of: UInt8(ascii: "]")) else { return false }
            let number = authority[authority.index(after: authority.startIndex)..<bracket]
            guard !number.isEmpty, number.allSatisfy({ isDigit($0) || "abcdef:.".utf8.contains($0) }) else {
                return false
            }
            hostEnd = authority.index(after: bracket)
        } else {
            hostEnd = authority.firstIndex(of: UInt8(ascii: ":")) ?? authority.endIndex
            let host = authority[..<hostEnd]
            guard !host.isEmpty, host.allSatisfy({ isLowercaseLetter($0) || isDigit($0) || "-._".utf8.contains($0) })
            else { return false }
        }
        if hostEnd == authority.endIndex { return true }
        guard authority[hostEnd] == UInt8(ascii: ":") else { return false }
        let port = String(decoding: authority[authority.index(after: hostEnd)...], as: UTF8.self)
        guard let number = UInt16(port), number > 0, String(number) == port else { return false }
        switch (String(decoding: scheme, as: UTF8.self), number) {
        case ("http", 80), ("https", 443): return false
        default: return true
        }
    }

    private static func isLowercaseLetter(_ byte: UInt8) -> Bool {
        (UInt8(ascii: "a")...UInt8(ascii: "z")).contains(byte)
    }

    private static func isDigit(_ byte: UInt8) -> Bool {
        (UInt8(ascii: "0")...UInt8(ascii: "9")).contains(byte)
    }
}
