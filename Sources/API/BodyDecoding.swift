// Turns a request body into JSON text: checks the media type and decodes the content coding.

import GzipCoding
import HTTP1
package import HTTPServer
import JourneyModel

package enum BodyDecoding {
    /// Returns the JSON text of a request, decompressed if necessary. Throws 413 if the decompressed body has more than
    /// `Request.bodyBytesMax` bytes. If the body is too long even before decompression, the server refuses the request
    /// before this function is called.
    package static func json(_ request: Request) throws(ProblemResponse) -> [UInt8] {
        var byteCount = 0
        return try json(request, byteCount: &byteCount)
    }

    /// Returns the JSON text of a request like `json(_:)`, and sets `byteCount`.
    ///
    /// - Parameter byteCount: set to the length of the JSON text. If this function throws, set to the number of bytes
    ///   received or decompressed, whichever is higher.
    static func json(_ request: Request, byteCount: inout Int) throws(ProblemResponse) -> [UInt8] {
        byteCount = request.body.count
        guard isJSON(request.fields) else {
            // Name the supported media type in the response (RFC 9110 section 15.5.16; for PATCH, RFC 5789 section
            // 2.2).
            let field = request.method == .patch ? "Accept-Patch" : "Accept"
            throw ProblemResponse(
                .unsupportedMediaType, "The Content-Type must be application/json.",
                fields: Fields([(field, "application/json")]))
        }
        switch try contentCoding(request.fields) {
        case .identity:
            return request.body
        case .gzip:
            var inflatedCount = 0
            do throws(GzipError) {
                let body = try Gzip.inflate(
                    request.body, bytesMax: request.bodyBytesMax, byteCount: &inflatedCount)
                byteCount = body.count
                return body
            } catch {
                byteCount = max(byteCount, inflatedCount)
                switch error {
                case .malformed:
                    throw ProblemResponse(.badRequest, "The body is not valid gzip.")
                case .tooLong:
                    throw ProblemResponse(
                        .contentTooLarge, "The body is longer than \(request.bodyBytesMax) bytes when decompressed.")
                }
            }
        }
    }

    /// Returns whether there is exactly one Content-Type field and its value is `application/json`, in any case and
    /// with any parameters (RFC 9110 section 8.3.1).
    private static func isJSON(_ fields: Fields) -> Bool {
        guard let bytes = fields.only("Content-Type") else { return false }
        // Shipped clients use exactly this spelling. Comparing with it first avoids creating a String.
        if bytes.elementsEqual("application/json".utf8) { return true }
        guard let value = fields.first("Content-Type") else { return false }
        return trimmed(value.utf8.prefix { $0 != UInt8(ascii: ";") }) == "application/json"
    }

    private enum ContentCoding { case identity, gzip }

    private static func contentCoding(_ fields: Fields) throws(ProblemResponse) -> ContentCoding {
        if fields.first("Content-Encoding") == nil { return .identity }
        let codings = fields.values("Content-Encoding").flatMap { $0.utf8.split(separator: UInt8(ascii: ",")) }
            .map(trimmed)
        switch codings {
        case [], ["identity"]: return .identity
        case ["gzip"], ["x-gzip"]: return .gzip
        default:  // RFC 9110 section 15.5.16: the response names the supported codings.
            throw ProblemResponse(
                .unsupportedMediaType, "Content-Encoding must be gzip or absent.",
                fields: Fields([("Accept-Encoding", "gzip")]))
        }
    }

    /// Returns the text in lower case, without surrounding whitespace.
    private static func trimmed(_ bytes: Substring.UTF8View) -> String {
        var bytes = bytes.drop(while: \.isOptionalWhitespace)
        while let last = bytes.last, last.isOptionalWhitespace { bytes.removeLast() }
        return String(decoding: bytes, as: UTF8.self).lowercased()
    }
}
