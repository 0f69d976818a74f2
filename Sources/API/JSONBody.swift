// Decodes the JSON body of a request member by member. Bodies of events have their own decoder (JourneyModel/Wire).

import HTTPServer
import JourneyModel

enum JSONBody {
    /// Reads the members of a JSON body with `read`. If `read` adds errors to its MemberReader, throws one problem with
    /// all of them.
    static func decode<Body>(
        _ request: Request, _ read: (inout MemberReader) -> Body?
    ) throws(ProblemResponse) -> Body {
        try decode(try value(of: request), read)
    }

    /// Parses the JSON body of a request.
    static func value(of request: Request) throws(ProblemResponse) -> JSONValue {
        let bytes = try BodyDecoding.json(request)
        do { return try JSONValue.parse(bytes) } catch { throw ProblemResponse(.malformedJSON(error)) }
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
