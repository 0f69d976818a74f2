// The column `event.occurred_at_text`, for the text of an event's time as the client sent it. Most clients write times
// in one of two forms, which can be computed from the moment. The column therefore stores only texts of other forms.

import JourneyModel

enum OccurredAtColumn {
    /// Returns the column's value for a time that was sent as `text`. Nil stands for the form
    /// `2026-01-31T08:00:00.000Z`, the empty text for `2026-01-31T08:00:00Z`. The column `event.occurred_at` computes
    /// `text` from this value and the moment.
    static func text(_ text: String, at moment: Moment) -> String? {
        let form: Form =
            text.utf8.withContiguousStorageIfAvailable { Self.form(of: $0, at: moment) }
            ?? Array(text.utf8).withUnsafeBufferPointer { Self.form(of: $0, at: moment) }
        return switch form {
        case .milliseconds: nil
        case .seconds: ""
        case .other: text
        }
    }

    private enum Form {
        case milliseconds
        case seconds
        case other
    }

    /// In both forms, the moment determines every digit. It is therefore enough to check the text's length, its
    /// punctuation and its moment. A leap second (`:60`) counts as another form, because its moment can also be written
    /// without `:60`.
    private static func form(of bytes: UnsafeBufferPointer<UInt8>, at moment: Moment) -> Form {
        let hasMilliseconds = bytes.count == 24
        guard hasMilliseconds || bytes.count == 20, bytes[10] == UInt8(ascii: "T"), bytes.last == UInt8(ascii: "Z"),
            bytes[17] != UInt8(ascii: "6"), !hasMilliseconds || bytes[19] == UInt8(ascii: "."),
            RFC3339.moment(from: bytes) == moment
        else { return .other }
        return hasMilliseconds ? .milliseconds : .seconds
    }
}
