// Decodes the JSON body of a request member by member. Bodies of events have their own decoder (JourneyModel/Wire).

import HTTPServer
import JourneyModel

enum JSONBody {
    /// The maximum length of a body in bytes after decompression. A body that is not compressed is limited by
    /// `Route.bodyBytesMax` instead. Even a body with the longest tokens has fewer bytes than this maximum.
    static let bytesMax = 16 * 1024

    /// Reads the members of a JSON body with `read`. Throws all errors that `read` recorded.
    static func decode<Body>(
        _ request: Request, bytesMax: Int = bytesMax, _ read: (inout MemberReader) -> Body?
    ) throws(ProblemResponse) -> Body {
        let bytes = try BodyDecoding.json(request, bytesMax: bytesMax)
        let value: JSONValue
        do { value = try JSONValue.parse(bytes) } catch { throw ProblemResponse(.malformedJSON(error)) }
        return try decode(value, read)
    }

    static func decode<Body>(
        _ value: JSONValue, _ read: (inout MemberReader) -> Body?
    ) throws(ProblemResponse) -> Body {
        var members = MemberReader(value)
        guard members.errors.isEmpty else { throw ProblemResponse(.invalid(InvalidFields(members.errors))) }
        let body = read(&members)
        guard members.errors.isEmpty, let body else { throw ProblemResponse(.invalid(InvalidFields(members.errors))) }
        return body
    }
}
