extension SessionSubmission {
    /// What `POST /native/sessions` answers: `{"session_id":"..."}`. Only the name, because on a repeat the first
    /// registration stands, whatever the others say.
    public var encoded: [UInt8] {
        var writer = JSONWriter(reservingBytes: 160)
        writer.beginObject()
        writer.name("session_id")
        writer.string(sessionID)
        writer.endObject()
        return writer.bytes
    }
}
