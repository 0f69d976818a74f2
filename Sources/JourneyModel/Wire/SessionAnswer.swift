extension SessionSubmission {
    /// The response of `POST /native/sessions`: `{"session_id":"..."}`. It has only the id, because a repeat does not
    /// change the first registration: the other members of the repeat may differ from the stored ones.
    public var encoded: [UInt8] {
        var writer = JSONWriter(reservingBytes: 160)
        writer.beginObject()
        writer.name("session_id")
        writer.string(sessionID)
        writer.endObject()
        return writer.bytes
    }
}
