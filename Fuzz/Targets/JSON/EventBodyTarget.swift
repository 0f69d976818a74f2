// Decodes arbitrary bytes as the body of each route for events, batches and sessions. An accepted event must keep the
// promises of EventSubmission. For a rejection, the problem document must be JSON, have a detail, and name the invalid
// parts of the request.
//
// An event must have the same result alone and in a batch, and in every notation of its JSON.
//
// Input: a line for Idempotency-Key, a line for X-Sent-At, then the body. An empty line means that the header is
// absent.

import JourneyModel

func fuzzEventBody(_ input: [UInt8]) throws(Finding) {
    let lines = input.split(separator: UInt8(ascii: "\n"), maxSplits: 2, omittingEmptySubsequences: false)
    guard lines.count == 3 else { return }
    let key = String(decoding: lines[0], as: UTF8.self)
    let sentAt = String(decoding: lines[1], as: UTF8.self)
    let headers = EventHeaders(idempotencyKey: key.isEmpty ? nil : key, sentAt: sentAt.isEmpty ? nil : sentAt)
    let body = Array(lines[2])

    let native = decodeAlone(body, headers)
    switch native {
    case .success(let event):
        try event.checkPromises(.native)
        try event.checkRewritten(from: body, headers)
    case .failure(let refusal):
        try refusal.checkCanBeTold()
    }
    try checkOldRoutes(body, headers)
    try checkBatch(body, sentAt: headers.sentAt)
    // Decode the event again without the headers, because headers do not apply to the events in a batch.
    let alone = headers == EventHeaders() ? native : decodeAlone(body, EventHeaders())
    if isWellFormed(alone) { try checkAmongNeighbours(body, alone) }
    try checkSession(body)
}

private typealias Decoded = Result<EventSubmission, BodyRefusal>

private func decodeAlone(_ body: [UInt8], _ headers: EventHeaders) -> Decoded {
    Result { () throws(BodyRefusal) in try EventSubmission.decode(body, route: .native, headers: headers) }
}

/// Returns whether the parser read the body to its end, so that the body is certainly one JSON text. In a batch, a body
/// that is not one JSON text could change how the next events are read.
///
/// The parser stops early at a syntax error, at nesting that is too deep, and at a number that is too long.
private func isWellFormed(_ decoded: Decoded) -> Bool {
    guard case .failure(.malformedJSON(let error)) = decoded else { return true }
    return [.duplicateName, .loneSurrogate, .invalidUTF8].contains(error.reason)
}

private func checkOldRoutes(_ body: [UInt8], _ headers: EventHeaders) throws(Finding) {
    for route in [EventRoute.v1Session, .v1PreSession] {
        switch Result(catching: { () throws(BodyRefusal) in
            try EventSubmission.decode(body, route: route, headers: headers)
        }) {
        case .success(let event): try event.checkPromises(route)
        case .failure(let refusal): try refusal.checkCanBeTold()
        }
    }
}

private func checkBatch(_ body: [UInt8], sentAt: String?) throws(Finding) {
    switch Result(catching: { () throws(BodyRefusal) in try EventBatch.decode(body, sentAt: sentAt) }) {
    case .success(let results):
        try require((1...EventBatch.eventsMax).contains(results.count), "A batch of \(results.count).")
        for result in results {
            switch result {
            case .success(let event): try event.checkPromises(.native)
            case .failure(let refusal): try refusal.checkCanBeTold()
            }
        }
    case .failure(let refusal):
        try refusal.checkCanBeTold()
    }
}

private let neighbour = #"{"event":"chargerTargeted","event_id":"n","occurred_at":"2026-11-05T07:00:00Z"}"#

/// Checks that an invalid event never affects the other events of a batch (contract, section 3).
///
/// Also checks that the event has the same result in the batch as alone. A batch nests the event two levels deeper, so
/// only the batch may refuse it as too deep.
private func checkAmongNeighbours(_ body: [UInt8], _ alone: Decoded) throws(Finding) {
    let text = Array(#"{"events":[\#(neighbour),"#.utf8) + body + Array(",\(neighbour)]}".utf8)
    let results = try? EventBatch.decode(text)
    guard let results, results.count == 3 else { throw Finding("An event sinks its batch.") }
    for place in [0, 2] {
        guard case .success(let event) = results[place] else { throw Finding("An event sinks its neighbour.") }
        try require(event.eventID == "n", "A neighbour changed.")
    }
    switch (alone, results[1]) {
    case (.success(let one), .success(let other)):
        try require(one == other, "Another event.")
    case (_, .failure(.malformedJSON(let error))) where error.reason == .tooDeep:
        break
    case (.failure(.malformedJSON(let one)), .failure(.malformedJSON(let other))):
        try require(one.reason == other.reason, "Another reason in a batch.")
    case (.failure(.invalid(let one)), .failure(.invalid(let other))):
        try require(one == other, "Other field errors in a batch.")
    default:
        throw Finding("Alone and in a batch it is not the same.")
    }
}

private func checkSession(_ body: [UInt8]) throws(Finding) {
    switch Result(catching: { () throws(BodyRefusal) in try SessionSubmission.decode(body) }) {
    case .success(let session):
        let texts = [session.sessionID, session.chargerID, session.merchantID]
        try require(texts.allSatisfy(isShortText), "A text of a session that is none.")
        let answer = try? JSONValue.parse(session.encoded)
        try require(answer?["session_id"] == .string(session.sessionID), "Another session_id is answered.")
    case .failure(let refusal):
        try refusal.checkCanBeTold()
    }
}
