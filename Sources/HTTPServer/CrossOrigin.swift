// CORS: decides which web pages may call this server from a browser and read its responses (Fetch standard, "HTTP-CORS
// protocol": https://fetch.spec.whatwg.org/#http-cors-protocol). The middleware `CrossOriginRequests`
// (Middleware.swift) adds the CORS fields to every response, even if no handler made the response.

internal import HTTP1

package struct CrossOrigin: Hashable, Sendable {
    /// The maximum number of allowed origins. The number is limited, because the `Origin` of each request is compared
    /// with the allowed origins one by one.
    package static let originsMax = 64

    /// The allowed origins, as a browser sends them in `Origin`. Never empty.
    package let origins: [String]

    /// Creates the policy for these origins. Returns nil if the list is empty or has more than `originsMax` elements,
    /// or if an origin does not have the form that browsers send.
    ///
    /// `*` and `null` are not accepted. The responses allow credentials, and for such responses the standard requires
    /// an exact origin.
    package init?(_ origins: [String]) {
        guard (1...Self.originsMax).contains(origins.count), origins.allSatisfy(Self.isSerializedOrigin) else {
            return nil
        }
        self.origins = origins
    }

    // MARK: Answers

    /// The response fields that an allowed page may read, in addition to the few fields that the Fetch standard lets
    /// every page read.
    private static let exposedFields =
        "RateLimit, RateLimit-Policy, Retry-After, ETag, X-Request-Id, Idempotent-Replayed"

    /// Adds the CORS fields to `answer`. `request` is the fields of the request.
    ///
    /// Every response gets `Vary: Origin`, even if the request has no allowed origin. Without `Vary`, a cache could
    /// serve a response made for one origin to a page of another origin.
    func allow(_ request: Fields, in answer: inout Fields) {
        answer.append("Vary", "Origin")
        guard let origin = allowedOrigin(of: request) else { return }
        answer.append("Access-Control-Allow-Origin", origin)
        // Without this field, the browser hides the response from a page that calls `fetch` with `credentials:
        // "include"`. The server itself reads no cookies.
        answer.append("Access-Control-Allow-Credentials", "true")
        answer.append("Access-Control-Expose-Headers", Self.exposedFields)
    }

    private func allowedOrigin(of request: Fields) -> String? {
        guard let value = request.only("Origin") else { return nil }
        return origins.first { $0.utf8.elementsEqual(value) }
    }

    // MARK: Preflights

    /// How many seconds a browser may cache the response to a preflight: two hours, the longest time that Chromium
    /// accepts.
    private static let keptSeconds = 7200
    /// The request fields that an allowed page may send: those that the server reads, and those that HTTP and tracing
    /// libraries add.
    private static let requestFields =
        "Authorization, Content-Type, Content-Encoding, Idempotency-Key, If-None-Match, Last-Event-ID, X-Request-Id, "
        + "X-App-Version, X-Sent-At, X-Requested-With, Cache-Control, traceparent, tracestate, baggage"

    /// Returns the fields of the response to a preflight from an allowed page. Returns nil for any other request.
    /// `methods` lists the methods that the server accepts on at least one path.
    ///
    /// Every preflight from an allowed page succeeds, even for an unknown path or method. The page can then send the
    /// actual request and read its 404 or 405. If the preflight were refused, the page would see only a network error.
    func preflightResponse(_ method: Method, _ request: Fields, methods: String) -> Fields? {
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

    /// Returns whether the text is `scheme://host[:port]` as browsers send it: in lower case, without a default port,
    /// and without a path (HTML standard, "ASCII serialization of an origin"). A configured origin in any other form
    /// would never equal the `Origin` of a request.
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
