extension SessionSubmission {
    /// The response of `POST /native/sessions`: `{"session_id":"..."}`. It has only the id. It does not repeat the
    /// charger and the merchant, because the first registration stays unchanged if the request is repeated with other
    /// values.
    public var encoded: [UInt8] {
        var writer = JSONWriter(reservingBytes: 160)
        writer.beginObject()
        writer.name("session_id")
        writer.string(sessionID)
        writer.endObject()
        return writer.bytes
    }
}
