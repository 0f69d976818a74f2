// GET /native/config: the eight settings, with a strong ETag so that a phone asks in one small round trip
// whether its copy still holds (RFC 9110 sections 8.8.3 and 13.1.2).

import Engine
import HTTP1
import HTTPServer
import Identity
import JourneyModel
import Synchronization

struct ConfigHandler: Sendable {
    let settings: SettingsInForce

    /// What is said while these settings are in force; put together once, and not for each phone that asks.
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

    var get: CallerAnswer {
        let memory = Memory(Prepared(settings.readWireJSON()))
        return { request, _ in
            let inForce = settings.readWireJSON()
            return memory.prepared.withLock { prepared in
                // The version is a function of the eight values.
                if prepared.version != inForce.version { prepared = Prepared(inForce) }
                let known = request.fields.values("If-None-Match")
                return EntityTag.matches(known, prepared.etag) ? prepared.notModified : prepared.whole
            }
        }
    }
}

enum EntityTag {
    /// Whether If-None-Match names that tag, or "*". Weak comparison, as section 13.1.2 asks for: `W/` does not count.
    static func matches(_ fieldValues: [String], _ etag: String) -> Bool {
        fieldValues.contains { value in
            value.split(separator: ",").contains { member in
                let tag = member.drop { $0 == " " || $0 == "\t" }.prefix { $0 != " " && $0 != "\t" }
                return tag == "*" || tag == etag || tag.dropFirst(2) == etag && tag.hasPrefix("W/")
            }
        }
    }
}
