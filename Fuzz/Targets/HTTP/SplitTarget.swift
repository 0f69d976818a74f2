// Checks two promises of ServerConnection:
//
// - The events and the response bytes do not depend on how the stream was split.
// - A completed request leaves no state. If the bytes after the first request arrive on a new connection, they cause
//   the same events.
//
// Input: one byte for the Plan, four bytes with lengths, then the client's bytes. The client's bytes are cut into
// pieces, and the four lengths apply to the pieces in turn.

import HTTP1

func fuzzSplit(_ input: [UInt8]) throws(Finding) {
    guard input.count >= 5 else { return }
    // 100 (Continue) is due only if no content arrived together with the head. This depends on how the bytes were
    // split. Therefore choose a plan that never sends 100 (Continue).
    let plan = Plan(input[0] & ~32)
    let lengths = input[1..<5].map { Int($0 & 63) + 1 }
    let bytes = input[5...]
    let whole = try Conversation([bytes], plan, checksHeads: false)
    let cut = try Conversation(pieces(of: bytes, lengths), plan, checksHeads: false)
    try require(whole.said == cut.said, "The cuts change what is said.")
    try require(whole.output == cut.output, "The cuts change what is answered.")

    guard let end = whole.firstEnd, whole.said.count > end.saidCount else { return }
    let rest = try Conversation([bytes.dropFirst(end.offset)], plan, checksHeads: false)
    try require(rest.said[...] == whole.said[end.saidCount...], "The first request changes the second.")
}

private func pieces(of bytes: ArraySlice<UInt8>, _ lengths: [Int]) -> [ArraySlice<UInt8>] {
    var pieces: [ArraySlice<UInt8>] = []
    var rest = bytes
    while !rest.isEmpty {
        let piece = rest.prefix(lengths[pieces.count % lengths.count])
        pieces.append(piece)
        rest = rest[piece.endIndex...]
    }
    return pieces
}
