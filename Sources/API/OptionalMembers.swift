// Members of a response that are omitted when they have no value (contract, section 3, "Reading").

import JourneyModel

extension JSONWriter {
    mutating func member(_ name: String, _ text: String?) {
        guard let text else { return }
        self.name(name)
        string(text)
    }

    /// Writes a time as RFC 3339, in UTC with milliseconds.
    mutating func member(_ name: String, _ moment: Moment?) {
        member(name, moment.map(RFC3339.text(of:)))
    }
}
