// What an answer shows of an event as its client sent it.

/// The members of a stored event that describe it; its names, keys and times are apart.
public struct SentMembers: Hashable, Sendable {
    public var source: String
    public var appState: String?
    public var chargerID: String?
    public var merchantID: String?
    public var sequence: Int64?
    /// The members of `EventDetail.all` that were sent: a compact JSON object; nil for none.
    public var details: String?

    public init(
        source: String, appState: String? = nil, chargerID: String? = nil, merchantID: String? = nil,
        sequence: Int64? = nil, details: String? = nil
    ) {
        self.source = source
        self.appState = appState
        self.chargerID = chargerID
        self.merchantID = merchantID
        self.sequence = sequence
        self.details = details
    }
}

extension JSONWriter {
    /// Writes them as members of the current object; one without a value is left out.
    public mutating func members(of sent: SentMembers) {
        let texts = [
            ("source", sent.source), ("app_state", sent.appState), ("charger_id", sent.chargerID),
            ("merchant_id", sent.merchantID),
        ]
        for case (let name, let text?) in texts {
            self.name(name)
            string(text)
        }
        if let sequence = sent.sequence {
            name("sequence")
            integer(sequence)
        }
        if let details = sent.details { members(ofObject: details) }
    }

    /// Writes the members of a compact JSON object as members of the current one.
    public mutating func members(ofObject json: String) {
        let inner = json.utf8.dropFirst().dropLast()
        guard !inner.isEmpty else { return }
        separate()
        unescaped(String(Substring(inner)))
    }
}
