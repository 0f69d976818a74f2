extension SessionSubmission {
    /// The response of `POST /native/sessions`: `{"session_id":"..."}`. It has only the id. A repeat does not change
    /// the first registration, so the other members of the repeat may differ from the stored members.
    public var encoded: [UInt8] {
        var writer = JSONWriter(reservingBytes: 160)
        writer.beginObject()
        writer.name("session_id")
        writer.string(sessionID)
        writer.endObject()
        return writer.bytes
    }
}
