// A client and a trivial server around a ServerConnection. The client delivers bytes in pieces, and the server responds
// to every request. The expected responses are written out byte by byte, without the encoder.

import HTTP1

let dateText = "Sun, 06 Nov 1994 08:49:37 GMT"

/// Returns a request in the notation of the tables: `POST /path?query <content> [Trailer: value]`.
func describe(_ head: RequestHead, content: [UInt8], trailers: Fields) -> String {
    var text = "\(head.method.rawValue) \(head.path)"
    if let query = head.query { text += "?\(query)" }
    if !content.isEmpty { text += " <\(String(decoding: content, as: UTF8.self))>" }
    for field in trailers.all { text += " [\(field.name): \(field.value)]" }
    return text
}

struct Client: ~Copyable {
    var connection: ServerConnection
    private(set) var outcomes: [Outcome] = []
    private(set) var output: [UInt8] = []
    /// Every request head that the connection returned, in order.
    private(set) var heads: [RequestHead] = []
    private(set) var contents: [[UInt8]] = []
    /// The event that the connection returned last.
    private(set) var lastEvent = ServerConnection.Event.needMoreData

    init(limits: Limits = Limits()) {
        connection = ServerConnection(limits: limits)
    }

    mutating func run(_ pieces: [ArraySlice<UInt8>]) {
        for piece in pieces {
            piece.withUnsafeBytes { connection.receive($0) }
            pump()
        }
        connection.receiveEndOfStream()
        pump()
    }

    private mutating func pump() {
        while true {
            lastEvent = connection.nextEvent()
            switch lastEvent {
            case .head(let head):
                heads.append(head)
                contents.append([])
            case .body(let bytes):
                contents[contents.count - 1] += bytes
            case .end(let trailers):
                serve(trailers)
            case .refused(let refusal):
                connection.encode(status: refusal.status, dateText: dateText, into: &output)
                outcomes.append(.refused(refusal.status.code))
            case .truncated:
                outcomes.append(.incomplete)
                return
            case .needMoreData, .responseDue, .endOfStream, .closed:
                return
            }
        }
    }

    private mutating func serve(_ trailers: Fields) {
        guard let head = heads.last, let content = contents.last else { return }
        let text = describe(head, content: content, trailers: trailers)
        connection.encode(status: .ok, body: Array("ok".utf8), dateText: dateText, into: &output)
        if connection.mustClose {
            outcomes.append(.servedLast(text))
        } else {
            outcomes.append(head.minorVersion == 0 ? .servedAndKept(text) : .served(text))
        }
    }
}

extension Outcome {
    /// The bytes of the response for this outcome.
    var answer: String {
        switch self {
        case .served(let request):
            "HTTP/1.1 200 OK\r\nDate: \(dateText)\r\nContent-Length: 2\r\n\r\n" + body(request)
        case .servedAndKept(let request):
            "HTTP/1.1 200 OK\r\nDate: \(dateText)\r\nContent-Length: 2\r\nConnection: keep-alive\r\n\r\n"
                + body(request)
        case .servedLast(let request):
            "HTTP/1.1 200 OK\r\nDate: \(dateText)\r\nContent-Length: 2\r\nConnection: close\r\n\r\n" + body(request)
        case .refused(let status):
            "HTTP/1.1 \(status) \(Self.phrases[status] ?? "?")\r\nDate: \(dateText)\r\nContent-Length: 0\r\n"
                + "Connection: close\r\n\r\n"
        case .incomplete:
            ""
        }
    }

    private func body(_ request: String) -> String { request.hasPrefix("HEAD ") ? "" : "ok" }

    /// The reason phrases of RFC 9110 section 15 and RFC 6585 section 5.
    private static let phrases = [
        400: "Bad Request", 413: "Content Too Large", 414: "URI Too Long", 417: "Expectation Failed",
        431: "Request Header Fields Too Large", 501: "Not Implemented", 505: "HTTP Version Not Supported",
    ]
}
