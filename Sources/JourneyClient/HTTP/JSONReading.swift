// The few accessors of a JSON value that this module needs.

import JourneyModel

extension JSONValue {
    var text: String? {
        if case .string(let text) = self { text } else { nil }
    }

    /// The value of a number; nil if the number has a fraction or an exponent or does not fit an Int64.
    var integer: Int64? {
        if case .number(let text) = self { Int64(text) } else { nil }
    }

    /// The value of a number; nil if the number is beyond the range of a Double.
    var double: Double? {
        guard case .number(let text) = self, let number = Double(text), number.isFinite else { return nil }
        return number
    }

    var elements: [JSONValue]? {
        if case .array(let elements) = self { elements } else { nil }
    }
}
