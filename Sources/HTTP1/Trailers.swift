// Trailer fields follow chunked content (RFC 9110 section 6.5) and are never merged into the header fields. Fields that
// frame, route, authenticate or describe the message are rejected (section 6.5.1). A server that merged such a trailer
// field into the header would read a different request.

enum Trailers {
    /// The names of rejected fields, in lower case for a case-insensitive comparison.
    private static let refused: [StaticString] = [
        "transfer-encoding", "content-length", "host", "connection", "keep-alive", "proxy-connection", "te",
        "trailer", "upgrade", "max-forwards", "forwarded", "x-forwarded-for", "x-forwarded-host",
        "x-forwarded-proto", "authorization", "proxy-authorization", "cookie", "expect", "cache-control", "range",
        "if-match", "if-none-match", "if-modified-since", "if-unmodified-since", "if-range", "content-encoding",
        "content-type", "content-range", "idempotency-key",
    ]

    static func append(
        _ bytes: [UInt8], _ line: Range<Int>, to trailers: inout Fields, limits: Limits
    ) throws(Refusal) {
        guard trailers.count < limits.trailerCountMax else {
            throw Refusal(.requestHeaderFieldsTooLarge, "The request has too many trailer fields.")
        }
        let field = try FieldLine.parse(bytes, line)
        guard !refused.contains(where: { Grammar.matches(bytes, field.name, $0) }) else {
            throw Refusal(.badRequest, "The trailer section contains a field that is not allowed there.")
        }
        trailers.append(field, of: bytes)
    }
}
