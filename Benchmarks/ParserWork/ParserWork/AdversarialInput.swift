// The expensive inputs of the parsers. Each input consists of a prefix, a part that is repeated, and a suffix.

import API
import GzipCoding
import HTTP1
import HTTPServer
import Identity
import JourneyModel

struct AdversarialInput: Sendable {
    var name: String
    /// Returns an input of about this many bytes.
    var bytes: @Sendable (Int) -> [UInt8]
    var parse: @Sendable ([UInt8]) -> Void

    init(
        _ name: String, before: String = "", _ piece: String, after: String = "",
        parse: @escaping @Sendable ([UInt8]) -> Void
    ) {
        self.name = name
        bytes = { count in
            let pieces = max(1, (count - before.utf8.count - after.utf8.count) / piece.utf8.count)
            return Array((before + String(repeating: piece, count: pieces) + after).utf8)
        }
        self.parse = parse
    }

    static var all: [AdversarialInput] {
        let lists = [
            json, jsonNames, events, times, head, headPieces, bodies, compressed, forwarded, conditions, bodyFields,
            queries, paths, tokens,
        ]
        return lists.flatMap { $0 }
    }

    // MARK: JSON

    private static let json: [AdversarialInput] =
        [
            ("json-whole-number", "", "0", ""), ("json-fraction", "0.", "0", "e999999999"),
            ("json-numbers", "[", "1,", "1]"),
            ("json-spaces", "", " ", "1"), ("json-arrays", "[", "[],", "[]]"), ("json-objects", "[", "{},", "{}]"),
            ("json-depth", "", "[", ""), ("json-depth-closed", String(repeating: "[", count: 65), "[]", ""),
            ("json-escapes", "\"", "\\u0041", "\""), ("json-surrogates", "\"", "\\ud83d", "\""),
            ("json-short-escapes", "\"", "\\n", "\""), ("json-utf8", "\"", "é", "\""),
            ("json-string-open", "\"", "a", ""),
            ("json-short-strings", "[", "\"\",", "0]"),
        ].map { name, before, piece, after in
            AdversarialInput(name, before: before, piece, after: after) { _ = try? JSONValue.parse($0) }
        }

    private static let jsonNames: [AdversarialInput] =
        [
            names("json-names") { "n\($0)" }, names("json-names-twice") { "n\($0 % 40)" },
        ]

    private static func names(_ name: String, _ text: @escaping @Sendable (Int) -> String) -> AdversarialInput {
        var input = AdversarialInput(name, "") { _ = try? JSONValue.parse($0) }
        input.bytes = { count in
            Array("{\((0..<count / 9).map { "\"\(text($0))\":0" }.joined(separator: ","))}".utf8)
        }
        return input
    }

    private static let event = #"{"event":"chargerTargeted","event_id":"e","occurred_at":"2026-11-05T07:00:00Z""#

    private static let events: [AdversarialInput] =
        [
            ("event-sequence", event + #","sequence":1"#, "0", "}"),
            ("event-sequence-fraction", event + #","sequence":0."#, "0", "e999999999}"),
            ("event-metadata-number", event + #","metadata":{"a":1"#, "0", "}}"),
            ("event-metadata-numbers", event + #","metadata":{"a":["#, "1.50e1,", "1]}}"),
            ("event-metadata-text", event + #","metadata":{"a":""#, "\\u00e9", "\"}}"),
            ("event-id", #"{"event_id":""#, "é", "\"}"), ("event-name", #"{"event":""#, "a", "\"}"),
            ("event-time-fraction", #"{"occurred_at":"2026-11-05T07:00:00."#, "0", "Z\"}"),
        ].map { name, before, piece, after in
            AdversarialInput(name, before: before, piece, after: after) {
                _ = try? EventSubmission.decode($0, route: .native)
            }
        }

    private static let times: [AdversarialInput] =
        [
            AdversarialInput("time-fraction", before: "2026-11-05T07:00:00.", "9", after: "Z") {
                _ = RFC3339.moment(from: String(decoding: $0, as: UTF8.self))
            },
            AdversarialInput("batch-of-nothing", before: #"{"events":["#, "{},", after: "{}]}") {
                _ = try? EventBatch.decode($0)
            },
            AdversarialInput("batch-of-bad-events", before: #"{"events":["#, #"{"event":1},"#, after: "{}]}") {
                _ = try? EventBatch.decode($0)
            },
            AdversarialInput(
                "batch-of-long-numbers", before: #"{"events":["#,
                #"{"sequence":1\#(String(repeating: "0", count: 200))},"#, after: "{}]}"
            ) {
                _ = try? EventBatch.decode($0)
            },
        ]

    // MARK: HTTP

    private static let host = "Host: a\r\n"

    private static let head: [AdversarialInput] =
        [
            ("head-empty-lines", "", "\r\n", ""), ("head-method", "", "A", " / HTTP/1.1\r\n"),
            ("head-path", "GET /", "a", " HTTP/1.1\r\n\(host)\r\n"),
            ("head-path-encoded", "GET /", "%61", " HTTP/1.1\r\n\(host)\r\n"),
            ("head-path-segments", "GET ", "/a", " HTTP/1.1\r\n\(host)\r\n"),
            ("head-query", "GET /?", "%61", " HTTP/1.1\r\n\(host)\r\n"),
            ("head-host", "GET / HTTP/1.1\r\nHost: ", "a.", "\r\n\r\n"),
            ("head-fields", "GET / HTTP/1.1\r\n\(host)", "\(String(repeating: "x", count: 60)):1\r\n", "\r\n"),
            ("head-value", "GET / HTTP/1.1\r\n\(host)a: ", "b", "\r\n\r\n"),
            ("head-value-spaces", "GET / HTTP/1.1\r\n\(host)a:", " ", "\r\n\r\n"),
            ("head-connection", "GET / HTTP/1.1\r\n\(host)Connection: ", "a,", "close\r\n\r\n"),
            ("head-transfer-encoding", "POST / HTTP/1.1\r\n\(host)Transfer-Encoding: ", ",", "chunked\r\n\r\n"),
            ("head-content-length", "POST / HTTP/1.1\r\n\(host)Content-Length: ", "0", "1\r\n\r\n"),
            ("head-no-end", "GET / HTTP/1.1\r\n\(host)a: ", "b", ""),
        ].map { name, before, piece, after in
            AdversarialInput(name, before: before, piece, after: after) { read($0, pieceBytes: $0.count) }
        }

    private static let headPieces: [AdversarialInput] =
        [
            AdversarialInput("head-byte-by-byte", before: "GET / HTTP/1.1\r\n\(host)a: ", "b", after: "\r\n\r\n") {
                read($0, pieceBytes: 16)
            }
        ]

    private static let chunked = "POST / HTTP/1.1\r\n\(host)Transfer-Encoding: chunked\r\n\r\n"

    private static let bodies: [AdversarialInput] =
        [
            ("chunks-of-one-byte", chunked, "1\r\na\r\n", "0\r\n\r\n"),
            ("chunk-size-zeros", chunked, "0", "1\r\na\r\n0\r\n\r\n"),
            ("chunk-extensions", chunked + "1", ";a", "\r\na\r\n0\r\n\r\n"),
            ("chunk-trailers", chunked + "0\r\n", "\(String(repeating: "x", count: 200)): b\r\n", "\r\n"),
            ("content", "POST / HTTP/1.1\r\n\(host)Content-Length: 9000\r\n\r\n", "a", ""),
        ].map { name, before, piece, after in
            AdversarialInput(name, before: before, piece, after: after) { read($0, pieceBytes: 512) }
        }

    private static let compressed: [AdversarialInput] =
        [
            // Many empty members of gzip (RFC 1952 section 2.2).
            gzip("gzip-members", [0x1F, 0x8B, 8, 0, 0, 0, 0, 0, 0, 3, 3, 0, 0, 0, 0, 0, 0, 0, 0, 0], before: []),
            // Many empty stored blocks of deflate (RFC 1951 section 3.2.4).
            gzip("gzip-empty-blocks", [0, 0, 0, 0xFF, 0xFF], before: [0x1F, 0x8B, 8, 0, 0, 0, 0, 0, 0, 3]),
            // A header with a file name that does not end.
            gzip("gzip-name", [0x61], before: [0x1F, 0x8B, 8, 8, 0, 0, 0, 0, 0, 3]),
        ]

    private static func gzip(_ name: String, _ piece: [UInt8], before: [UInt8]) -> AdversarialInput {
        var input = AdversarialInput(name, "a") { _ = try? Gzip.inflate($0, bytesMax: 1 << 20) }
        input.bytes = { count in
            before + (0..<(count - before.count) / piece.count).flatMap { _ in piece }
        }
        return input
    }

    private static func read(_ bytes: [UInt8], pieceBytes: Int) {
        var connection = ServerConnection()
        for start in stride(from: 0, to: bytes.count, by: pieceBytes) {
            bytes[start..<min(start + pieceBytes, bytes.count)].withUnsafeBytes { connection.receive($0) }
            reading: while true {
                switch connection.nextEvent() {
                case .head, .body: continue
                default: break reading
                }
            }
        }
    }

    // MARK: Fields with lists

    private static let forwarded: [AdversarialInput] = [
        ("forwarded", "Forwarded", "for=1.2.3.4,"), ("forwarded-pairs", "Forwarded", "a=b;"),
        ("forwarded-quoted", "Forwarded", "for=\"\\[\\:\\:1\\]\","), ("forwarded-quote-open", "Forwarded", "for=\"a"),
        ("x-forwarded-for", "X-Forwarded-For", "1.2.3.4,"), ("x-forwarded-for-commas", "X-Forwarded-For", ", "),
    ].map { name, field, piece in
        AdversarialInput(name, piece) { bytes in
            _ = proxies.clientAddress(peer: "127.0.0.1", Fields([(field, String(decoding: bytes, as: UTF8.self))]))
        }
    }

    private static let conditions: [AdversarialInput] = [
        ("if-none-match", "\"a\","), ("if-none-match-weak", "W/"), ("if-none-match-commas", ","),
    ].map { name, piece in
        AdversarialInput(name, piece) { bytes in
            _ = EntityTag.matches([String(decoding: bytes, as: UTF8.self)], "\"0123456789abcdef\"")
        }
    }

    private static let bodyFields: [AdversarialInput] = [
        ("content-encoding", "Content-Encoding", "gzip,"), ("content-encoding-spaces", "Content-Encoding", " "),
        ("content-type", "Content-Type", " ;"), ("bearer", "Authorization", "Bearer a "),
    ].map { name, field, piece in
        AdversarialInput(name, piece) { bytes in
            var fields = Fields([(field, String(decoding: bytes, as: UTF8.self))])
            if field == "Content-Encoding" { fields.append("Content-Type", "application/json") }
            if field == "Authorization" {
                _ = BearerToken.read(from: fields)
            } else {
                let request = Request(
                    method: .post, path: "/", fields: fields, bodyBytesMax: 1, id: "a", receivedAtMilliseconds: 0)
                _ = try? BodyDecoding.json(request)
            }
        }
    }

    private static let proxies = TrustedProxies(["127.0.0.1", "1.2.3.4", "10.0.0.0/8"]) ?? TrustedProxies()

    // MARK: Addresses

    private static let queries: [AdversarialInput] =
        [
            ("query-parameters", "", "a&"), ("query-limit", "limit=", "1"), ("query-limits", "", "limit=1&"),
            ("query-cursor", "cursor=", "a"), ("query-equals", "", "="),
        ].map { name, before, piece in
            AdversarialInput(name, before: before, piece) { bytes in
                _ = try? PageQuery(String(decoding: bytes, as: UTF8.self), limitDefault: 20, limitMax: 100)
            }
        }

    private static let paths: [AdversarialInput] =
        [
            ("path-segments", "/a"), ("path-empty-segments", "/"), ("path-one-segment", "a"),
        ].map { name, piece in
            AdversarialInput(name, before: "/native/sessions/", piece) { bytes in
                _ = router.match(.get, String(decoding: bytes, as: UTF8.self))
            }
        }

    private static let router = Router(
        ["/native/sessions/{session_id}", "/native/devices/{token}", "/ops/sessions/{session_id}"].map {
            Route(.get, $0) { _ in Response(status: .ok) }
        })

    // MARK: Tokens

    private static let tokens: [AdversarialInput] = [("base64url", "AAAA"), ("base64url-replaced", "-_")].map {
        name, piece in
        AdversarialInput(name, piece) { _ = Base64URL.bytes(of: String(decoding: $0, as: UTF8.self)) }
    }
}
