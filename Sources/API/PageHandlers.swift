// Documents for browsers and tools: /openapi.json and the pages embedded in the binary (Pages/). Each document is the
// same for all clients.

import CPages
import Crypto
import HTTP1
import HTTPServer
import JourneyModel

/// A file of Pages/ or a document that the operator configured, with the header fields of its response.
struct Page: Sendable {
    let bytes: [UInt8]
    let mediaType: String
    private let cacheControl: String
    private let etag: String

    /// A file of Pages/.
    init(_ page: dwell_page, _ mediaType: String) {
        self.init(Array(UnsafeBufferPointer(start: page.bytes, count: page.count)), mediaType)
    }

    init(_ bytes: [UInt8], _ mediaType: String, cacheControl: String = "no-cache") {
        self.bytes = bytes
        self.mediaType = mediaType
        self.cacheControl = cacheControl
        etag = "\"\(SHA256.hash(data: bytes).prefix(8).hexadecimal)\""
    }

    func response(to request: Request) -> Response {
        let fields = Fields([
            ("ETag", etag), ("Cache-Control", cacheControl),
            // The page must not load or run anything from other origins, and no other site may show it in a frame.
            ("Content-Security-Policy", Self.policy), ("X-Content-Type-Options", "nosniff"),
            ("Referrer-Policy", "no-referrer"),
        ])
        return EntityTag.response(
            to: request, etag, whole: whole(fields), notModified: Response(status: .notModified, fields: fields))
    }

    private func whole(_ fields: Fields) -> Response {
        var fields = fields
        fields.append("Content-Type", mediaType)
        return Response(status: .ok, fields: fields, body: .bytes(bytes))
    }

    private static let policy = """
        default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; \
        base-uri 'none'; form-action 'none'; frame-ancestors 'none'
        """
}

enum PageHandlers {
    /// The path and the file of each page. The pages are public: they contain only the contract, or code without data.
    /// The operator page loads its data from routes that require a token.
    static let pages = [
        ("/openapi.json", Page(dwell_page_openapi_json(), "application/json")),
        ("/docs", Page(dwell_page_docs_html(), html)),
        ("/docs/docs.css", Page(dwell_page_docs_css(), css)),
        ("/docs/docs.js", Page(dwell_page_docs_js(), javaScript)),
        ("/ops", Page(dwell_page_ops_html(), html)),
        ("/ops/ops.css", Page(dwell_page_ops_css(), css)),
        ("/ops/ops.js", Page(dwell_page_ops_js(), javaScript)),
        ("/ops/ops-draw.js", Page(dwell_page_ops_draw_js(), javaScript)),
        ("/ops/ops-history.js", Page(dwell_page_ops_history_js(), javaScript)),
        ("/ops/ops-cases.js", Page(dwell_page_ops_cases_js(), javaScript)),
        ("/ops/ops-start.js", Page(dwell_page_ops_start_js(), javaScript)),
    ]

    static let html = "text/html; charset=utf-8"
    static let css = "text/css; charset=utf-8"
    static let javaScript = "text/javascript; charset=utf-8"
}
