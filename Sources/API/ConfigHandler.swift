// GET /native/config: the eight settings, with a strong ETag. With one small request, a phone can check whether its
// copy of the settings is current (RFC 9110 sections 8.8.3 and 13.1.2).

import Engine
import HTTP1
import HTTPServer
import Identity
import JourneyModel
import Synchronization

struct ConfigHandler: Sendable {
    let settings: CurrentSettings

    /// The responses for the settings in force. They are built once, not for each request.
    private struct Prepared {
        var version: String
        var etag: String
        var whole: Response
        var notModified: Response

        init(_ inForce: (version: String, wireJSON: [UInt8])) {
            version = inForce.version
            etag = "\"" + inForce.version + "\""
            var fields = Fields([("ETag", etag), ("Cache-Control", "private, max-age=86400")])
            notModified = Response(status: .notModified, fields: fields)
            fields.append("Content-Type", "application/json")
            whole = Response(status: .ok, fields: fields, body: .bytes(inForce.wireJSON))
        }
    }

    private final class Memory: Sendable {
        let prepared: Mutex<Prepared>

        init(_ prepared: Prepared) {
            self.prepared = Mutex(prepared)
        }
    }

    var get: @Sendable (Request, Caller) -> Response {
        let memory = Memory(Prepared(settings.readWireJSON()))
        return { request, _ in
            let inForce = settings.readWireJSON()
            return memory.prepared.withLock { prepared in
                // The version is computed from the eight values. Equal versions therefore mean equal settings.
                if prepared.version != inForce.version { prepared = Prepared(inForce) }
                let known = request.fields.values("If-None-Match")
                return EntityTag.matches(known, prepared.etag) ? prepared.notModified : prepared.whole
            }
        }
    }
}

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

    /// Returns whether the list contains the entity tag. In each member of the list, everything after a space is
    /// ignored.
    private static func names(_ list: UnsafeBufferPointer<UInt8>, _ etag: UnsafeBufferPointer<UInt8>) -> Bool {
        var index = 0
        while index < list.count {
            while index < list.count, isSpace(list[index]) { index += 1 }
            let start = index
            while index < list.count, !isSpace(list[index]), list[index] != UInt8(ascii: ",") { index += 1 }
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

    private static func isSpace(_ byte: UInt8) -> Bool {
        byte == UInt8(ascii: " ") || byte == UInt8(ascii: "\t")
    }
}
