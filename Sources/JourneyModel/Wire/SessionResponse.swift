extension SessionSubmission {
    /// The response of `POST /native/sessions`: `{"session_id":"..."}`. It has only the id. If the request is repeated
    /// with other values, the first registration does not change.
    public var encoded: [UInt8] {
        var writer = JSONWriter(reservingBytes: 160)
        writer.beginObject()
        writer.name("session_id")
        writer.string(sessionID)
        writer.endObject()
        return writer.bytes
    }
}
