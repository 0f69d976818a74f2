// docs/http-conformance.md is generated from the tables of the tests. This test fails if the file is outdated.
// Generate it with: WRITE_DOCS=1 make test-one TEST=ConformanceDocumentTests

import Foundation
import Testing

@Suite struct ConformanceDocumentTests {
    private static let file = URL(fileURLWithPath: #filePath)
        .deletingLastPathComponent().deletingLastPathComponent().deletingLastPathComponent()
        .appendingPathComponent("docs/http-conformance.md")

    @Test func thePageIsWhatTheTablesSay() throws {
        let page = Self.page()
        if ProcessInfo.processInfo.environment["WRITE_DOCS"] != nil {
            try page.write(to: Self.file, atomically: false, encoding: .utf8)
        }
        let written = try String(contentsOf: Self.file, encoding: .utf8)
        #expect(written == page, "run with WRITE_DOCS=1")
    }

    /// The page lacks the cases of a table that `sections` does not list.
    @Test func thePageNamesEveryCase() {
        let page = Self.page()
        let names = ConformanceTests.cases.map(\.name) + ResponseCases.all.map(\.name)
        let missing = names.filter { !page.contains("| \(Self.cell($0)) |") }
        #expect(missing.isEmpty)
    }

    private static func page() -> String {
        var text = introduction
        for (title, cases) in sections {
            text += "\n## \(title)\n\n| section | case | sent | answer |\n|---|---|---|---|\n"
            for each in cases {
                let answers = each.outcomes.map(\.summary).joined(separator: "; ")
                text += "| \(each.section) | \(cell(each.name)) | \(code(each.input)) | \(answers) |\n"
            }
        }
        text += "\n## Responses\n\n| section | case | request | response |\n|---|---|---|---|\n"
        for each in ResponseCases.all {
            let expected = each.expected.replacingOccurrences(of: "Date: \(dateText)", with: "Date: ...")
            text += "| \(each.section) | \(cell(each.name)) | \(code(Array(each.request.utf8))) "
            text += "| \(code(Array(expected.utf8))) |\n"
        }
        return text
    }

    private static let sections: [(String, [ConformanceCase])] = [
        ("Messages and lines", RequestLineCases.parsing), ("Methods and request lines", RequestLineCases.methods),
        ("Versions", RequestLineCases.versions), ("Targets", RequestLineCases.targets),
        ("Host", RequestLineCases.hosts), ("Paths", PathCases.all), ("Field lines", FieldCases.lines),
        ("Limits on fields", FieldCases.limits), ("Connection", FieldCases.connection),
        ("Expect, HEAD, OPTIONS, TRACE", FieldCases.expect), ("Content-Length", FramingCases.contentLength),
        ("Transfer-Encoding", FramingCases.transferEncoding), ("Chunked coding", FramingCases.chunks),
        ("Trailers", FramingCases.trailers), ("Request smuggling and splitting", SmugglingCases.all),
    ]

    private static let introduction = """
        # HTTP conformance

        This page lists the server's responses to given bytes. The first column of each table names a section of an RFC:
        `9112` is RFC 9112 (HTTP/1.1), `9110` is RFC 9110 (HTTP semantics), `3986` is RFC 3986 (URIs), and `6585` is
        RFC 6585 (status 431). Each row is a test. The test sends the bytes in one piece, then in two pieces, and then
        byte by byte. It splits a short input in two at every position, and a long input at about 110 positions. If the
        input is complete, the test also sends it together with another request after it. The last table, "Responses",
        shows all bytes of each response; its tests send each request in one piece only.
        `WRITE_DOCS=1 make test-one TEST=ConformanceDocumentTests` generates this page from the tables of the tests
        (`Tests/HTTP1Tests/*Cases.swift`).

        *Served* means that a handler gets the request and that the response is 200. The row shows the request as the
        handler gets it: `<...>` is its content, and `[...]` is a trailer field. The connection stays open after a
        served request unless the row says *closed*. If the row shows only a status, the server rejects the request: it
        sends one response with this status and `Connection: close`, and ignores all later bytes. *Incomplete* means
        that the server waits for the rest of the request and has sent no response. `ServerConnectionTests.swift` tests
        100 (Continue), the limits of single routes, and responses that begin before the request is complete
        (9110 10.1.1, 15.5.14; 9112 9.3).

        Where the RFCs leave a choice, the server does this:

        - Input that two servers could read differently is rejected and never corrected. Examples are several
          Content-Length values, even equal ones (9112 6.3), Transfer-Encoding together with Content-Length (6.3),
          obs-fold (5.2), bare CR and bare LF (2.2), and empty elements in Transfer-Encoding.
        - An unsupported transfer coding gets 501 (9112 6.1), with or without `chunked` after it. The response is 400
          (6.3) if a coding is malformed, or if `chunked` is repeated, has a parameter, or is not the last coding.
        - A path is rejected with 400 if it contains a segment `.` or `..`, an empty segment (`//`), `%2F`, `%5C`, a
          control character, or bytes that are not UTF-8. Dots, control characters and such bytes are rejected in
          percent-encoded form too. All other percent-encoded triplets are decoded exactly once. A trailing `/` is
          significant.
        - The authority of absolute-form replaces Host (9112 3.2.2), but a valid Host is still required. The scheme
          `https` is accepted in absolute-form, because a gateway may terminate TLS.
        - CONNECT gets 501, because the server has no tunnels. Upgrade is ignored (9110 7.8). An empty Host gets 400,
          because an http URI has a host (9110 4.2.1).
        - Bytes above ASCII in field values are read as UTF-8; invalid UTF-8 becomes U+FFFD. The field values that this
          server itself interprets consist of ASCII characters only.

        """

    private static func cell(_ text: String) -> String { text.replacingOccurrences(of: "|", with: "\\|") }

    /// Returns the first 150 bytes as a code span, followed by the number of bytes if there are more. Escapes control
    /// characters, bytes above ASCII, and the characters that would end the span or the table cell.
    private static func code(_ bytes: [UInt8]) -> String {
        let limit = 150
        var text = ""
        for byte in bytes.prefix(limit) {
            switch byte {
            case 0x0D: text += "\\r"
            case 0x0A: text += "\\n"
            case 0x09: text += "\\t"
            case 0x5C: text += "\\\\"
            case 0x60: text += "\\x60"
            case 0x7C: text += "\\|"
            case 0x20...0x7E: text += String(UnicodeScalar(byte))
            default: text += "\\x" + (byte < 16 ? "0" : "") + String(byte, radix: 16, uppercase: true)
            }
        }
        return "`\(text)`" + (bytes.count > limit ? " ... (\(bytes.count) bytes)" : "")
    }
}

extension Outcome {
    fileprivate var summary: String {
        switch self {
        case .served(let request), .servedAndKept(let request): "served \(Self.code(request))"
        case .servedLast(let request): "served \(Self.code(request)), closed"
        case .refused(let status): "\(status)"
        case .incomplete: "incomplete"
        }
    }

    private static func code(_ request: String) -> String {
        let short = request.count > 80 ? request.prefix(60) + "..." : request[...]
        let escaped = short.replacingOccurrences(of: "\r", with: "\\r").replacingOccurrences(of: "\n", with: "\\n")
            .replacingOccurrences(of: "\r\n", with: "\\r\\n").replacingOccurrences(of: "|", with: "\\|")
            .replacingOccurrences(of: "`", with: "\\x60")
        return "`\(escaped)`"
    }
}
