// The file format of the journal: each line is one JSON object and ends with a line feed. Compact JSON never contains a
// line feed.
//
//     {"add":"<event id>","moves_state":true,"body":"<the body, as a JSON string>"}
//     {"removed":["<event id>"]}

import JourneyModel

enum JournalLine: Hashable {
    case add(QueuedEvent)
    case removed([String])

    var encoded: [UInt8] {
        var writer = JSONWriter()
        writer.beginObject()
        switch self {
        case .add(let event):
            writer.name("add")
            writer.string(event.eventID)
            writer.name("moves_state")
            writer.bool(event.movesState)
            writer.name("body")
            // A body is JSON and therefore valid UTF-8, so reading the line returns exactly the same bytes.
            writer.string(String(decoding: event.body, as: UTF8.self))
        case .removed(let eventIDs):
            writer.name("removed")
            writer.beginArray()
            for eventID in eventIDs { writer.string(eventID) }
            writer.endArray()
        }
        writer.endObject()
        return writer.bytes + [UInt8(ascii: "\n")]
    }

    /// Reads a line. Nil if the line has neither the member `add` with a body, nor the member `removed`.
    init?(_ line: some Collection<UInt8>) {
        guard let json = try? JSONValue.parse(Array(line)) else { return nil }
        if let eventID = json["add"]?.text, let body = json["body"]?.text {
            self = .add(
                QueuedEvent(
                    eventID: eventID, body: Array(body.utf8), movesState: json["moves_state"] != .bool(false)))
        } else if let removed = json["removed"]?.elements {
            self = .removed(removed.compactMap(\.text))
        } else {
            return nil
        }
    }
}
