// GET /native/config: the eight settings, with a strong ETag so that a phone asks in one small round trip
// whether its copy still holds (RFC 9110 sections 8.8.3 and 13.1.2).

import Engine
import HTTP1
import HTTPServer
import Identity
import JourneyModel

struct ConfigHandler: Sendable {
    let settings: SettingsInForce

    var get: CallerHandler {
        { request, _ throws(ProblemAnswer) in
            let inForce = settings.readWireJSON()
            let etag = "\"" + inForce.version + "\""
            var fields = Fields([("ETag", etag), ("Cache-Control", "private, max-age=86400")])
            let known = request.fields.values("If-None-Match")
            guard !EntityTag.matches(known, etag) else {
                return Response(status: .notModified, fields: fields)
            }
            fields.append("Content-Type", "application/json")
            return Response(status: .ok, fields: fields, body: .bytes(inForce.wireJSON))
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
