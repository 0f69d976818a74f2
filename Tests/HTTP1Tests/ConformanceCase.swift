// A row of the conformance tables: the bytes that a client sends and the required response, with the section that
// requires it. The tests and docs/http-conformance.md use the same tables.

import Testing

struct ConformanceCase: Sendable, CustomTestStringConvertible {
    var section: String
    var name: String
    var input: [UInt8]
    var outcomes: [Outcome]

    var testDescription: String { "\(section): \(name)" }

    /// Creates a case. Each character of `input`, from U+0000 to U+00FF, stands for one byte.
    init(_ section: String, _ name: String, _ input: String, _ outcomes: Outcome...) {
        self.section = section
        self.name = name
        self.input = bytes(input)
        self.outcomes = outcomes
    }
}

/// The required result for one request. A served request is written in the notation of `describe`.
enum Outcome: Hashable, Sendable {
    /// Answered 200; the connection stays open.
    case served(String)
    /// Answered 200 with `Connection: keep-alive`, which an HTTP/1.0 client needs; the connection stays open.
    case servedAndKept(String)
    /// Answered 200 with `Connection: close`; the server ignores the bytes after the request.
    case servedLast(String)
    /// Answered with the given status and `Connection: close`; the server ignores all further bytes.
    case refused(Int)
    /// Not answered, because the request is incomplete.
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

// MARK: - Requests that many cases share

/// Returns a GET with these field lines after Host.
func get(fields: String) -> String { "GET / HTTP/1.1\r\nHost: a\r\n\(fields)\r\n" }

/// Returns a GET with this target.
func get(_ target: String) -> String { "GET \(target) HTTP/1.1\r\nHost: a\r\n\r\n" }

/// Returns a GET with this Host value.
func get(host: String) -> String { "GET / HTTP/1.1\r\nHost: \(host)\r\n\r\n" }

/// Returns a request with this request line.
func line(_ requestLine: String) -> String { "\(requestLine)\r\nHost: a\r\n\r\n" }

func post(_ fields: String, _ content: String = "") -> String {
    "POST / HTTP/1.1\r\nHost: a\r\n\(fields)\r\n\(content)"
}

/// Returns a POST in chunked coding.
func chunked(_ content: String) -> String { post("Transfer-Encoding: chunked\r\n", content) }
