// Decides whether two submissions are the same event under one idempotency key (contract, section 3, "A repeat is a
// repeat").

extension EventSubmission {
    /// Returns canonical JSON that depends on the event's meaning and not on its notation. The form is the same for
    /// both spellings of an event's name, for two notations of one millisecond, for a default value and an absent
    /// member, for `null` and an absent member, for `1.0` and `1`, and for any order of members. It leaves out unknown
    /// members, and `timestamp` and `X-Sent-At`, which may differ between attempts. The two events with the name
    /// exitedChargerAnchorZone have different forms, because only one of them has a `session_id`.
    ///
    /// `app_state` and `schema_version` are included although a repeat may differ in them, because digests of this form
    /// are stored and the form must therefore not change. `canonicalForm(appState:schemaVersion:)` serves to compare
    /// two events without these two members.
    func canonicalForm(metadata: JSONValue?) -> [UInt8] {
        canonicalForm(metadata: metadata, appState: appState, schemaVersion: schemaVersion)
    }

    /// Returns the canonical form of this event, but with the `app_state` and `schema_version` of a stored event, the
    /// two members in which a repeat may differ. `self` is a repeat of the stored event exactly when the result equals
    /// the canonical form of that event. This method parses `metadata` again, so call it only in the rare case that the
    /// forms of the two events as sent differ.
    ///
    /// - Parameter hasDetails: false leaves out the details, for comparison with an event that was stored without
    ///   details, for example by a release that did not support details.
    /// - Returns: nil if `metadata` is not JSON, which is never the case in a decoded submission.
    package func canonicalForm(appState: String?, schemaVersion: String, hasDetails: Bool = true) -> [UInt8]? {
        var event = self
        if !hasDetails { event.details = nil }
        guard let metadata else {
            return event.canonicalForm(metadata: nil, appState: appState, schemaVersion: schemaVersion)
        }
        guard let value = try? JSONValue.parse(Array(metadata.utf8)) else { return nil }
        return event.canonicalForm(metadata: value, appState: appState, schemaVersion: schemaVersion)
    }

    private func canonicalForm(metadata: JSONValue?, appState: String?, schemaVersion: String) -> [UInt8] {
        var form = JSONWriter.canonical(reservingBytes: 512)
        form.verbatim("{")
        form.text(#""app_state":""#, appState, #"","#)
        form.text(#""charger_id":""#, chargerID, #"","#)
        if let details, let value = try? JSONValue.parse(Array(details.utf8)) {
            form.verbatim(#""details":"#)
            form.canonicalValue(value)
            form.verbatim(",")
        }
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
    /// Writes a member with the value `text`. `before` contains the member's name. Writes nothing if `text` is nil.
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
