// Computes the canonical form of an event. Two submissions with one idempotency key are the same event if their forms
// are equal (contract, section 3, "What counts as a repeat").

extension EventSubmission {
    /// Returns canonical JSON that depends on the event's meaning and not on its notation. The form does not depend on:
    ///
    /// - which spelling of the event's name is used
    /// - how a time is written, as long as it is the same millisecond
    /// - whether a member is absent, `null`, or sent with its default value
    /// - whether a number is written as `1.0` or `1`
    /// - the order of members
    ///
    /// The form leaves out unknown members. It leaves out `driver_id`, because only events of one driver are compared.
    /// It also leaves out `timestamp` and `X-Sent-At`, which may differ between attempts.
    ///
    /// `departedCharger` and `anchorLost` share the name exitedChargerAnchorZone. Their forms differ, because only
    /// `departedCharger` has a `session_id`.
    ///
    /// A repeat may differ in `app_state` and `schema_version`. The form nevertheless includes both, because earlier
    /// releases included them and digests of the form are stored. To compare two events without these two members, use
    /// `canonicalForm(appState:schemaVersion:)`.
    func canonicalForm(metadata: JSONValue?) -> [UInt8] {
        canonicalForm(metadata: metadata, appState: appState, schemaVersion: schemaVersion)
    }

    /// Returns the canonical form that this event would have with the `app_state` and `schema_version` of a stored
    /// event. This event is a repeat of the stored event exactly if the result equals the stored event's form.
    ///
    /// This method is slow, because it parses `metadata` again. Call it only if this event's own `canonicalForm`
    /// differs from the stored event's form.
    ///
    /// - Parameter hasDetails: false leaves out the details. Use false if the stored event has no details, for example
    ///   because a release that did not support details stored it.
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
