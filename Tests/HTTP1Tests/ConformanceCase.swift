// One line of the conformance tables: the bytes that a client sends and the required response, with the section that
// requires it. The tests and docs/http-conformance.md use the same tables.

import Testing

struct ConformanceCase: Sendable, CustomTestStringConvertible {
    var section: String
    var name: String
    var input: [UInt8]
    var outcomes: [Outcome]

    var testDescription: String { "\(section): \(name)" }

    /// `input` is written as text of U+0000 to U+00FF, each standing for one byte.
    init(_ section: String, _ name: String, _ input: String, _ outcomes: Outcome...) {
        self.section = section
        self.name = name
        self.input = bytes(input)
        self.outcomes = outcomes
    }
}

/// What becomes of one request. Served requests are written as `describe` writes them.
enum Outcome: Hashable, Sendable {
    /// Gets 200, and the connection stays open.
    case served(String)
    /// The same for HTTP/1.0, with `Connection: keep-alive` in the response.
    case servedAndKept(String)
    /// Answered 200 with `Connection: close`; nothing after it is read.
    case servedLast(String)
    /// Answered with that status and `Connection: close`; nothing after it is read.
    case refused(Int)
    /// Not complete: no answer.
    case incomplete

    var goesOn: Bool {
        switch self {
        case .served, .servedAndKept: true
        case .servedLast, .refused, .incomplete: false
        }
    }
}

func bytes(_ text: String) -> [UInt8] {
    text.unicodeScalars.map { UInt8(truncatingIfNeeded: $0.value) }
}

// MARK: - Shapes that many cases share

/// A GET with those field lines after Host.
func get(fields: String) -> String { "GET / HTTP/1.1\r\nHost: a\r\n\(fields)\r\n" }

/// A GET of that target.
func get(_ target: String) -> String { "GET \(target) HTTP/1.1\r\nHost: a\r\n\r\n" }

/// A GET with that Host value.
func get(host: String) -> String { "GET / HTTP/1.1\r\nHost: \(host)\r\n\r\n" }

/// A request whose first line is that.
func line(_ requestLine: String) -> String { "\(requestLine)\r\nHost: a\r\n\r\n" }

/// A POST with those field lines after Host, then that content.
func post(_ fields: String, _ content: String = "") -> String {
    "POST / HTTP/1.1\r\nHost: a\r\n\(fields)\r\n\(content)"
}

/// A POST in chunked coding.
func chunked(_ content: String) -> String { post("Transfer-Encoding: chunked\r\n", content) }
