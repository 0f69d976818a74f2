// Handles GET of /.well-known/apple-app-site-association, /.well-known/assetlinks.json and the pages in PublicPages. A
// document or page that is not configured gets 404.

import HTTP1
import HTTPServer
import JourneyModel

struct LinkHandlers: Sendable {
    private let apple: Page?
    private let android: Page?
    private let pages: PublicPages

    init(_ links: AppLinks, pages: PublicPages) {
        apple = links.appleDocument.map(Self.document)
        android = links.androidDocument.map(Self.document)
        self.pages = pages
    }

    func appleAssociation(_ request: Request) -> Response {
        Self.response(apple, request)
    }

    func androidStatements(_ request: Request) -> Response {
        Self.response(android, request)
    }

    func page(_ name: PublicPageName) -> @Sendable (Request) -> Response {
        { [pages] request in Self.response(pages.page(name), request) }
    }

    private static func response(_ page: Page?, _ request: Request) -> Response {
        page?.response(to: request)
            ?? ProblemResponse(.notFound, "This server does not have this document.").response(requestID: request.id)
    }

    /// Returns the page of a document. Apple's and Google's caches may keep the document for an hour, so a correction
    /// by the operator takes effect within an hour.
    private static func document(_ json: [UInt8]) -> Page {
        Page(json, "application/json", cacheControl: "public, max-age=3600")
    }
}
