extension SessionSubmission {
    /// The response of `POST /native/sessions`: `{"session_id":"..."}`. Only the id, because on a repeat the first
    /// registration remains, whatever the other members say.
    public var encoded: [UInt8] {
        var writer = JSONWriter(reservingBytes: 160)
        writer.beginObject()
        writer.name("session_id")
        writer.string(sessionID)
        writer.endObject()
        return writer.bytes
    }
}
