// Compares entity tags with the field If-None-Match (RFC 9110 section 13.1.2).

import HTTP1

package enum EntityTag {
    /// Returns whether If-None-Match contains `etag` or "*". RFC 9110 section 13.1.2 requires the weak comparison,
    /// which ignores `W/`.
    package static func matches(_ fieldValues: [String], _ etag: String) -> Bool {
        var etag = etag
        return etag.withUTF8 { etag in
            fieldValues.contains { value in
                var value = value
                return value.withUTF8 { names($0, etag) }
            }
        }
    }

    /// Returns whether the list contains the entity tag. A member of the list ends at white space or a comma. Text
    /// between the white space and the comma is ignored.
    private static func names(_ list: UnsafeBufferPointer<UInt8>, _ etag: UnsafeBufferPointer<UInt8>) -> Bool {
        var index = 0
        while index < list.count {
            while index < list.count, list[index].isOptionalWhitespace { index += 1 }
            let start = index
            while index < list.count, !list[index].isOptionalWhitespace, list[index] != UInt8(ascii: ",") { index += 1 }
            let tag = UnsafeBufferPointer(rebasing: list[start..<index])
            if isSame(tag, etag) { return true }
            while index < list.count, list[index] != UInt8(ascii: ",") { index += 1 }
            index += 1
        }
        return false
    }

    private static func isSame(_ tag: UnsafeBufferPointer<UInt8>, _ etag: UnsafeBufferPointer<UInt8>) -> Bool {
        switch tag.count {
        case 1 where tag[0] == UInt8(ascii: "*"): true
        case etag.count: tag.elementsEqual(etag)
        case etag.count + 2: tag.starts(with: "W/".utf8) && tag[2...].elementsEqual(etag)
        default: false
        }
    }
}
