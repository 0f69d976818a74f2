// What makes two submissions "the same body" under one idempotency key (contract, section 3: "compares the parsed
// members without `timestamp`").

extension EventSubmission {
    /// Canonical JSON of what was understood, not of how it was written: both spellings of an event are the same,
    /// so are two notations of one millisecond, a default and its absence, `null` and absence, `1.0` and `1`, and
    /// any order of members. Left out are `timestamp` and `X-Sent-At`, which change with each attempt, and unknown
    /// members, of which nothing is understood. `session_id` present or absent tells the two events apart that
    /// share the name exitedChargerAnchorZone.
    func canonicalForm(metadata: JSONValue?) -> [UInt8] {
        var form = JSONWriter.canonical(reservingBytes: 512)
        form.verbatim("{")
        form.text(#""app_state":""#, appState, #"","#)
        form.text(#""charger_id":""#, chargerID, #"","#)
        form.text(#""event":""#, name.canonical, #"""#)
        form.text(#","event_id":""#, eventID, #"""#)
        form.text(#","idempotency_key":""#, idempotencyKey, #"""#)
        form.text(#","merchant_id":""#, merchantID, #"""#)
        if let metadata {
            form.verbatim(#","metadata":"#)
            form.canonicalValue(metadata)
        }
        form.number(#","occurred_at":"#, occurredAt.millisecondsSinceEpoch)
        form.text(#","schema_version":""#, schemaVersion, #"""#)
        form.number(#","sequence":"#, sequence)
        form.text(#","session_id":""#, sessionID, #"""#)
        form.text(#","source":""#, source, #""}"#)
        return form.bytes
    }
}

extension JSONWriter {
    /// A member whose name stands in what goes before its text; nothing at all where there is no text.
    fileprivate mutating func text(_ before: StaticString, _ text: String?, _ after: StaticString) {
        guard let text else { return }
        verbatim(before)
        characters(text)
        verbatim(after)
    }

    fileprivate mutating func number(_ before: StaticString, _ number: Int64?) {
        guard let number else { return }
        verbatim(before)
        digits(number)
    }
}
