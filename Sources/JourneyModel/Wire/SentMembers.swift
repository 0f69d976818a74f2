// The members of an event that a response repeats as the client sent them. The server sets only the member `sender`.

/// The members of a stored event that responses repeat.
public struct SentMembers: Hashable, Sendable {
    public var source: String
    /// `service` for an event that a service sent. Also `service` for a visit that the server stores after the driver
    /// enters the right verification code. Nil for an event of the driver's app, and for an expiry event.
    public var sender: String?
    public var appState: String?
    public var chargerID: String?
    public var merchantID: String?
    public var sequence: Int64?
    /// The details (`EventDetail.all`) that the client sent, as a compact JSON object; nil if it sent none.
    public var details: String?

    public init(
        source: String, appState: String? = nil, chargerID: String? = nil, merchantID: String? = nil,
        sequence: Int64? = nil, details: String? = nil, sender: String? = nil
    ) {
        self.source = source
        self.sender = sender
        self.appState = appState
        self.chargerID = chargerID
        self.merchantID = merchantID
        self.sequence = sequence
        self.details = details
    }
}

extension JSONWriter {
    /// Writes the members of `sent` into the current object. Leaves out a member without a value.
    public mutating func members(of sent: SentMembers) {
        let texts = [
            ("source", sent.source), ("sender", sent.sender), ("app_state", sent.appState),
            ("charger_id", sent.chargerID), ("merchant_id", sent.merchantID),
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

    /// Writes the members of the compact JSON object `json` into the current object.
    public mutating func members(ofObject json: String) {
        let inner = json.utf8.dropFirst().dropLast()
        guard !inner.isEmpty else { return }
        separate()
        unescaped(String(Substring(inner)))
    }
}
