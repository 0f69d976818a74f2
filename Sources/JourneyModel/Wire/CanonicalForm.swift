// What makes two submissions "the same body" under one idempotency key (contract, section 3: "compares the parsed
// members without `timestamp`").

extension EventSubmission {
    /// Canonical JSON of what was understood, not of how it was written: both spellings of an event are the same,
    /// so are two notations of one millisecond, a default and its absence, `null` and absence, `1.0` and `1`, and
    /// any order of members. Left out are `timestamp` and `X-Sent-At`, which change with each attempt, and unknown
    /// members, of which nothing is understood. `session_id` present or absent tells the two events apart that
    /// share the name exitedChargerAnchorZone.
    func canonicalForm(metadata: JSONValue?) -> String {
        var writer = JSONWriter.canonical(reservingBytes: 512)
        func member(_ name: String, _ text: String?) {
            guard let text else { return }
            writer.name(name)
            writer.string(text)
        }
        writer.beginObject()
        member("app_state", appState)
        member("charger_id", chargerID)
        member("event", name.canonical)
        member("event_id", eventID)
        member("idempotency_key", idempotencyKey)
        member("merchant_id", merchantID)
        if let metadata {
            writer.name("metadata")
            writer.canonicalValue(metadata)
        }
        writer.name("occurred_at")
        writer.integer(occurredAt.millisecondsSinceEpoch)
        member("schema_version", schemaVersion)
        if let sequence {
            writer.name("sequence")
            writer.integer(sequence)
        }
        member("session_id", sessionID)
        member("source", source)
        writer.endObject()
        return String(decoding: writer.bytes, as: UTF8.self)
    }
}
