// Evaluates the conditions of a GET or HEAD request for a representation with an entity tag (RFC 9110 section 13).

import HTTP1
import HTTPServer

package enum EntityTag {
    /// Checks If-Match before If-None-Match (RFC 9110 section 13.2.2). Returns 412 if If-Match is present without the
    /// strong tag `etag`. Returns 304 if If-None-Match has the tag, and `whole` in all other cases.
    ///
    /// Conditions on the modification date are ignored, because no representation has one (sections 13.1.3 and 13.1.4).
    static func response(
        to request: Request, _ etag: String, whole: @autoclosure () -> Response,
        notModified: @autoclosure () -> Response
    ) -> Response {
        let wanted = request.fields.values("If-Match")
        if !wanted.isEmpty, !matchesStrongly(wanted, etag) {
            return ProblemResponse.preconditionFailed.response(requestID: request.id)
        }
        return matches(request.fields.values("If-None-Match"), etag) ? notModified() : whole()
    }

    /// Returns whether If-None-Match contains `etag` or "*". RFC 9110 section 13.1.2 requires the weak comparison,
    /// which ignores `W/`.
    package static func matches(_ fieldValues: [String], _ etag: String) -> Bool {
        names(fieldValues, etag, isWeak: true)
    }

    /// Returns whether If-Match contains `etag` or "*". RFC 9110 section 13.1.1 requires the strong comparison, in
    /// which no tag with `W/` matches.
    static func matchesStrongly(_ fieldValues: [String], _ etag: String) -> Bool {
        names(fieldValues, etag, isWeak: false)
    }

    private static func names(_ fieldValues: [String], _ etag: String, isWeak: Bool) -> Bool {
        var etag = etag
        return etag.withUTF8 { etag in
            fieldValues.contains { value in
                var value = value
                return value.withUTF8 { names($0, etag, isWeak: isWeak) }
            }
        }
    }

    /// Returns whether the list contains the entity tag. A tag may contain commas and spaces, because it ends at its
    /// second quotation mark (RFC 9110 section 8.8.3). Text between a tag and the next comma is ignored.
    private static func names(
        _ list: UnsafeBufferPointer<UInt8>, _ etag: UnsafeBufferPointer<UInt8>, isWeak: Bool
    ) -> Bool {
        var index = 0
        while index < list.count {
            while index < list.count, list[index].isOptionalWhitespace { index += 1 }
            let start = index
            if list[index...].starts(with: "W/\"".utf8) { index += 2 }
            if index < list.count, list[index] == UInt8(ascii: "\"") {
                guard let end = list[(index + 1)...].firstIndex(of: UInt8(ascii: "\"")) else { return false }
                index = end + 1
            } else {
                index = list[index...].firstIndex { $0.isOptionalWhitespace || $0 == UInt8(ascii: ",") } ?? list.count
            }
            let tag = UnsafeBufferPointer(rebasing: list[start..<index])
            if isSame(tag, etag, isWeak: isWeak) { return true }
            while index < list.count, list[index] != UInt8(ascii: ",") { index += 1 }
            index += 1
        }
        return false
    }

    private static func isSame(
        _ tag: UnsafeBufferPointer<UInt8>, _ etag: UnsafeBufferPointer<UInt8>, isWeak: Bool
    ) -> Bool {
        switch tag.count {
        case 1 where tag[0] == UInt8(ascii: "*"): true
        case etag.count: tag.elementsEqual(etag)
        case etag.count + 2 where isWeak: tag.starts(with: "W/".utf8) && tag[2...].elementsEqual(etag)
        default: false
        }
    }
}
