// Decodes arbitrary bytes as chunked content with ServerConnection and with ChunkedReference. Both must return the same
// content, and both must end in the same way. They refuse the bytes with the same status, need more bytes, or reach the
// trailer section.
//
// Input: one byte for the Plan, then the content in chunked coding. Of the plan, the target uses only the limits.

import HTTP1

func fuzzChunkedContent(_ input: [UInt8]) throws(Finding) {
    guard let first = input.first else { return }
    let plan = Plan(first & 12)
    let coded = Array(input.dropFirst())
    let reference = ChunkedReference(coded, plan)
    var connection = ServerConnection(limits: plan.limits)
    connection.receive(Array("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n".utf8) + coded)
    guard case .head = connection.nextEvent() else { throw Finding("No head.") }
    if let bodyBytesMax = plan.bodyBytesMax { connection.limitBody(toBytes: bodyBytesMax) }

    var content: [UInt8] = []
    var event = connection.nextEvent()
    while case .body(let bytes) = event {
        content += bytes
        event = connection.nextEvent()
    }
    try require(content == reference.content, "Other content.")
    switch (event, reference.end) {
    case (.needMoreData, .incomplete): break
    case (.refused(let refusal), .refused(let status)):
        try require(refusal.status.code == status, "Refused with \(refusal.status.code), not \(status).")
    case (_, .trailers(let start)):
        try checkTrailers(event, connection, coded, start, plan.limits)
    default: throw Finding("\(event) where the reference ends in \(reference.end).")
    }
}

/// Checks the trailer fields without a reference decoder. Each line of the trailer section must become one field, whose
/// name is the name in that line. No field may frame or route the request.
private func checkTrailers(
    _ event: ServerConnection.Event, _ connection: borrowing ServerConnection, _ coded: [UInt8], _ start: Int,
    _ limits: Limits
) throws(Finding) {
    switch event {
    case .end(let trailers):
        let end = coded.count - connection.bufferedBytes
        let section = coded[start..<end]
        try require(section.suffix(2) == [0x0D, 0x0A] && section.count <= limits.trailerSectionBytesMax, "No end.")
        let lines = section.dropLast(2).split(separator: 0x0A, omittingEmptySubsequences: true)
        try require(lines.count == trailers.count, "Not one trailer for each line.")
        for (line, trailer) in zip(lines, trailers.all) {
            let name = Array(trailer.name.utf8)
            try require(line.starts(with: name + [0x3A]) && name.allSatisfy(isTokenByte), "Another trailer.")
            let framing = ["content-length", "transfer-encoding", "host", "connection", "authorization"]
            try require(!framing.contains(trailer.name.lowercased()), "A trailer that frames or routes.")
        }
    case .refused(let refusal):
        try require([400, 431].contains(refusal.status.code), "Trailers refused with \(refusal.status.code).")
    case .needMoreData:
        try require(!coded[start...].starts(with: [0x0D, 0x0A]), "An empty trailer section does not end.")
    default: throw Finding("\(event) after the last chunk.")
    }
}
