// Reads arbitrary bytes as the bytes of a client. The two main checks are:
//
// - A strict reader reads the responses of a Conversation, as a client does.
// - Every served request is rewritten in the plainest form in which a proxy could forward it. The parser must read
//   this form as the same request. This check is skipped if the plan responds before the content has arrived.
//
// Input: one byte for the Plan, then the client's bytes.

import HTTP1

func fuzzRequestParser(_ input: [UInt8]) throws(Finding) {
    guard let first = input.first else { return }
    let plan = Plan(first)
    let conversation = try Conversation([input[1...]], plan)
    try ResponseReader.check(conversation.output, are: conversation.answers)

    let requests = try PlainRequest.all(of: conversation.said)
    let versions = occurrences(of: Array("HTTP/1.".utf8), in: input[1...])
    try require(conversation.said.count(where: \.isHead) <= versions, "More requests than request lines.")
    guard plan.answer != .early else { return }
    for request in requests { try request.checkPassesUnchanged() }
}

extension Conversation.Said {
    fileprivate var isHead: Bool {
        if case .head = self { true } else { false }
    }
}

private func occurrences(of word: [UInt8], in bytes: ArraySlice<UInt8>) -> Int {
    bytes.indices.count { bytes[$0...].starts(with: word) }
}

/// A request that was delivered completely.
private struct PlainRequest {
    var head: RequestHead
    var content: [UInt8] = []

    static func all(of said: [Conversation.Said]) throws(Finding) -> [PlainRequest] {
        var requests: [PlainRequest] = []
        var current: PlainRequest?
        for item in said {
            switch item {
            case .head(let head): current = PlainRequest(head: head)
            case .content(let bytes): current?.content = bytes
            case .end:
                guard let whole = current else { throw Finding("An end without a head.") }
                requests.append(whole)
            case .refused, .truncated, .endOfStream: break
            }
        }
        return requests
    }

    /// Writes the request in origin-form, with one Host and with Content-Length. Checks that the parser accepts the
    /// written form and reads it as the same request.
    func checkPassesUnchanged() throws(Finding) {
        let again = try Conversation([plainBytes[...]], Plan(0))
        guard case .head(let other) = again.said.first else { throw Finding("Accepted once, then refused.") }
        try require(other.method == head.method && other.minorVersion == head.minorVersion, "Another request line.")
        try require(
            other.path.utf8.elementsEqual(head.path.utf8) && other.query == head.query, "Another target.")
        try require(other.authority == head.authority && other.keepAlive == head.keepAlive, "Another host or end.")
        let tail = again.said.dropFirst()
        let expected: [Conversation.Said] =
            (content.isEmpty ? [] : [.content(content)]) + [.end(Fields())] + (head.keepAlive ? [.endOfStream] : [])
        try require(Array(tail) == expected, "Other content, or a second request.")
    }

    private var plainBytes: [UInt8] {
        let query = head.query.map { "?" + $0 } ?? ""
        var text =
            "\(head.method.rawValue) \(percentEncoded(head.path))\(query) HTTP/1.\(head.minorVersion)\r\n"
        if !head.authority.isEmpty { text += "Host: \(head.authority)\r\n" }
        if !head.keepAlive { text += "Connection: close\r\n" }
        if head.keepAlive && head.minorVersion == 0 { text += "Connection: keep-alive\r\n" }
        return Array((text + "Content-Length: \(content.count)\r\n\r\n").utf8) + content
    }
}
