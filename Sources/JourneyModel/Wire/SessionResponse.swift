extension SessionSubmission {
    /// The response of `POST /native/sessions`: `{"session_id":"..."}`. It leaves out the charger and the merchant,
    /// because a repeated request with other values does not change the first registration.
    public var encoded: [UInt8] {
        var writer = JSONWriter(reservingBytes: 160)
        writer.beginObject()
        writer.name("session_id")
        writer.string(sessionID)
        writer.endObject()
        return writer.bytes
    }
}
