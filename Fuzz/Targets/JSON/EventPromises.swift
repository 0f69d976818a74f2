// Checks what EventSubmission and BodyRefusal promise about their values (contract, section 3).

import JourneyModel

extension EventSubmission {
    func checkPromises(_ route: EventRoute) throws(Finding) {
        try require([eventID, idempotencyKey].allSatisfy(isKey), "A key that is not 1 to 128 printable characters.")
        let texts = [driverID, sessionID, chargerID, merchantID, source]
        try require(texts.allSatisfy(isShortText), "A text that is not 1 to 128 characters without controls.")
        try require(source != "server", "Source server from a client.")
        try require(appState == nil || appState == "foreground" || appState == "background", "An unknown app_state.")
        try require(schemaVersion.utf8.starts(with: "1.".utf8), "Another major version.")
        try require((sequence ?? 0) >= 0, "A sequence below 0.")
        try require(RFC3339.moment(from: occurredAtText) == occurredAt, "occurred_at and its text differ.")

        let hasSession = sessionID != nil
        try require(!name.requiresSession || hasSession, "A session event without a session.")
        try require(name != .anchorLost || !hasSession, "anchor_lost with a session.")
        try require(route == .native || hasSession == (route == .v1Session), "A session_id against its route.")
        let readBack = EventName(canonical: name.canonical, hasSession: hasSession)
        try require(readBack == name, "The stored name reads back as another.")
        try checkMetadata()
        try checkCanonicalForm()
    }

    private func checkMetadata() throws(Finding) {
        guard let metadata else { return }
        try require(metadata.utf8.count <= Self.metadataBytesMax, "Metadata over the limit.")
        let value = try? JSONValue.parse(Array(metadata.utf8))
        guard let value, case .object = value else { throw Finding("Metadata that is no JSON object.") }
        try require(value.compact.utf8.elementsEqual(metadata.utf8), "Metadata that is not compact.")
    }

    /// Checks that the canonical form is ASCII and JSON, and contains the values that distinguish events. Without these
    /// values, two different events could have the same form. Of `metadata`, only the presence is checked.
    private func checkCanonicalForm() throws(Finding) {
        try require(canonicalForm.allSatisfy { $0 < 0x80 }, "A canonical form beyond ASCII.")
        guard let form = try? JSONValue.parse(canonicalForm) else { throw Finding("It is no JSON.") }
        let texts = [
            "event": name.canonical, "event_id": eventID, "idempotency_key": idempotencyKey, "session_id": sessionID,
            "charger_id": chargerID, "merchant_id": merchantID, "source": source, "app_state": appState,
            "schema_version": schemaVersion,
        ]
        for (name, text) in texts {
            try require(form[name] == text.map(JSONValue.string), "The canonical form differs in \(name).")
        }
        let numbers = ["occurred_at": occurredAt.millisecondsSinceEpoch, "sequence": sequence]
        for (name, number) in numbers {
            try require(form[name] == number.map { .number(String($0)) }, "The canonical form differs in \(name).")
        }
        try require((form["metadata"] == nil) == (metadata == nil), "The canonical form differs in metadata.")
    }
}

extension BodyRefusal {
    /// Checks that the problem document is JSON and has a detail. Every field error must name the invalid part of the
    /// request.
    func checkCanBeTold() throws(Finding) {
        let problem = try? JSONValue.parse(Problem(self, requestID: "r").encoded())
        guard let problem, case .string(let detail) = problem["detail"], !detail.isEmpty else {
            throw Finding("A refusal that cannot be told.")
        }
        if case .invalid(let fields) = self { try fields.checkPlaces() }
    }
}

extension InvalidFields {
    /// Checks that no two errors name the same part of the request. An error has a pointer into the body, or the name
    /// of a header.
    func checkPlaces() throws(Finding) {
        try require(!errors.isEmpty, "A refusal without a field error.")
        let pointers = errors.map(\.pointer)
        try require(Set(pointers).count == pointers.count, "Two errors in one place.")
        let headers = ["Idempotency-Key", "X-Sent-At"]
        let areInPlace = pointers.allSatisfy { $0.isEmpty || $0.hasPrefix("/") || headers.contains($0) }
        try require(areInPlace, "A field error nowhere.")
    }
}

/// Returns whether the text follows the rule for short texts. Returns true for nil, because an absent text breaks no
/// rule.
func isShortText(_ text: String?) -> Bool {
    guard let scalars = text?.unicodeScalars else { return true }
    return (1...128).contains(scalars.count) && scalars.allSatisfy { $0.properties.generalCategory != .control }
}

private func isKey(_ text: String) -> Bool {
    (1...128).contains(text.utf8.count) && text.utf8.allSatisfy { (0x20...0x7E).contains($0) }
}
