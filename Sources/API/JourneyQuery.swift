// The query parameters `limit` and `cursor` of a page. A cursor encodes the beginning of a page in base64url (RFC 4648,
// section 5). Clients must not interpret it. A cursor of a driver's list is valid only for that driver.

import Identity
import JourneyModel

package enum PageCursor: Hashable {
    case session(String)
    case event(Int64)

    var text: String {
        switch self {
        case .session(let sessionID): Self.encode("s" + sessionID)
        case .event(let id): Self.encode("e" + String(id))
        }
    }

    /// Returns nil if the text cannot be a cursor that this server made.
    init?(_ text: String) {
        // The longest cursor contains a session_id of 128 characters, each of up to 4 bytes in UTF-8. Base64 encodes 3
        // bytes as 4, so 700 bytes are enough for this cursor.
        //
        // The decoded text begins with `s` (session) or `e` (event). Read this letter as a byte. If the session_id
        // after it begins with a combining character, Swift would read the letter and this character as one Character.
        guard text.utf8.count <= 700, let decoded = Self.decode(text), let kind = decoded.utf8.first else { return nil }
        let rest = String(decoded.unicodeScalars.dropFirst())
        switch kind {
        // A cursor with a control character must not reach the store. For example, PostgreSQL rejects a text with a
        // NUL, and SQLite ignores the text after the NUL. No session_id contains control characters, so the server
        // never issues such a cursor.
        case UInt8(ascii: "s") where !rest.isEmpty && !rest.unicodeScalars.contains(where: \.isControl):
            self = .session(rest)
        case UInt8(ascii: "e"):
            guard let id = Int64(rest), id > 0 else { return nil }
            self = .event(id)
        default: return nil
        }
        guard self.text == text else { return nil }
    }

    private static func encode(_ text: String) -> String {
        Base64URL.text(of: text.utf8)
    }

    private static func decode(_ text: String) -> String? {
        Base64URL.bytes(of: text).flatMap { String(validating: $0, as: UTF8.self) }
    }
}

/// The query parameters of a page, validated.
package struct PageQuery: Hashable {
    package var limit: Int
    package var cursor: PageCursor?

    /// - Throws: `validation_failed`, with a pointer for each invalid parameter. Unknown parameters are ignored.
    package init(_ query: String?, limitDefault: Int, limitMax: Int) throws(ProblemResponse) {
        var errors: [FieldError] = []
        limit = limitDefault
        if let text = Self.single("limit", in: query, &errors) {
            if let number = Self.wholeNumber(text), (1...limitMax).contains(number) {
                limit = number
            } else {
                errors.append(
                    FieldError(pointer: "/limit", detail: "must be a whole number from 1 to \(limitMax)"))
            }
        }
        if let text = Self.single("cursor", in: query, &errors) {
            cursor = PageCursor(text)
            if cursor == nil { errors.append(Self.cursorIsUnknown) }
        }
        guard errors.isEmpty else { throw ProblemResponse(.invalid(InvalidFields(errors))) }
    }

    static let cursorIsUnknown = FieldError(pointer: "/cursor", detail: "is not a cursor of this list")

    /// Returns the parameter's value without percent-decoding. The caller rejects percent-encoded values, because
    /// digits (`limit`) and base64url (`cursor`) need no encoding. If the parameter is repeated, adds an error and
    /// returns nil.
    private static func single(_ name: String, in query: String?, _ errors: inout [FieldError]) -> String? {
        let values = values(of: name, in: query)
        if values.count <= 1 { return values.first }
        errors.append(FieldError(pointer: "/\(name)", detail: "must not be repeated"))
        return nil
    }

    /// Returns the values of a parameter, in their order in the query. Values are not percent-decoded.
    static func values(of name: String, in query: String?) -> [String] {
        (query ?? "").utf8.split(separator: UInt8(ascii: "&")).compactMap { parameter in
            guard parameter.starts(with: name.utf8) else { return nil }
            let rest = parameter.dropFirst(name.utf8.count)
            return rest.isEmpty || rest.first == UInt8(ascii: "=") ? String(Substring(rest.dropFirst())) : nil
        }
    }

    private static func wholeNumber(_ text: String) -> Int? {
        text.utf8.allSatisfy(\.isASCIIDigit) ? Int(text) : nil
    }
}
