// Tests of the two documents that tell Apple and Google which apps open this host's links. Also tests the operator's
// pages, which may be replaced while the server runs.

import HTTP1
import HTTPServer
import Testing

@testable import API

@Suite struct LinkRouteTests {
    @Test func `Apple's document has today's form`() async {
        let answer = await ScriptedAPI().ask("/.well-known/apple-app-site-association", fields: [])
        #expect(answer.status == .ok)
        #expect(answer.fields.first("Content-Type") == "application/json")
        #expect(
            answer.text
                == #"{"applinks":{"details":[{"appIDs":["ABCDE12345.com.example.app","ABCDE12345.com.example.beta"],"#
                + #""components":[{"/":"/open/web/*","exclude":true},{"/":"/open/*"}]}]}}"#)
    }

    @Test func `Google's document has a statement for each app`() async {
        let answer = await ScriptedAPI().ask("/.well-known/assetlinks.json", fields: [])
        #expect(answer.status == .ok)
        #expect(answer.fields.first("Content-Type") == "application/json")
        func statement(_ package: String, _ fingerprints: String) -> String {
            #"{"relation":["delegate_permission/common.handle_all_urls"],"target":{"namespace":"android_app","#
                + #""package_name":"\#(package)","sha256_cert_fingerprints":[\#(fingerprints)]}}"#
        }
        #expect(
            answer.text
                == "[\(statement("com.example.app", #""AA:BB","CC:DD""#)),\(statement("com.example.beta", #""EE:FF""#))]"
        )
    }

    @Test(arguments: [AppLinks.applePath, AppLinks.androidPath])
    func `a document may be kept for an hour and is then compared by its tag`(path: String) async throws {
        let api = ScriptedAPI()
        let first = await api.ask(path, fields: [])
        #expect(first.fields.first("Cache-Control") == "public, max-age=3600")
        let tag = try #require(first.fields.first("ETag"))
        let second = await api.ask(path, fields: [("If-None-Match", tag)])
        #expect(second.status == .notModified && second.text.isEmpty && second.fields.first("ETag") == tag)
        #expect(await api.ask(path, fields: [("If-None-Match", "\"other\"")]).status == .ok)
    }

    @Test(arguments: [AppLinks.applePath, AppLinks.androidPath] + PublicPageName.allCases.map(\.path))
    func `what is not configured is 404`(path: String) async {
        let answer = await ScriptedAPI(hasLinks: false).ask(path, fields: [])
        #expect(answer.status == .notFound)
        #expect(answer.fields.first("Content-Type") == "application/problem+json")
        #expect(answer.fields.first("Cache-Control") == "no-store")
    }

    @Test(arguments: PublicPageName.allCases)
    func `a page has the fields that protect the server's own pages`(name: PublicPageName) async {
        let api = ScriptedAPI()
        let own = await api.ask("/docs", fields: [])
        let page = await api.ask(name.path, fields: [])
        #expect(page.status == .ok && page.text == "<p>Page</p>")
        for field in [
            "Content-Security-Policy", "X-Content-Type-Options", "Referrer-Policy", "Cache-Control", "Content-Type",
        ] {
            #expect(page.fields.first(field) == own.fields.first(field) && page.fields.first(field) != nil, "\(field)")
        }
    }

    @Test func `a replaced page is sent at once and names what changed`() async throws {
        let api = ScriptedAPI()
        let before = await api.ask("/terms", fields: [])
        let same = PublicPage(bytes: Array("<p>Page</p>".utf8), mediaType: PageHandlers.html)
        let text = PublicPage(bytes: Array("Terms".utf8), mediaType: "text/plain; charset=utf-8")
        #expect(api.pages.replace(with: [.privacy: same, .terms: text, .support: same]) == [.terms])
        let tag = try #require(before.fields.first("ETag"))
        let after = await api.ask("/terms", fields: [("If-None-Match", tag)])
        #expect(after.status == .ok && after.text == "Terms")
        #expect(after.fields.first("Content-Type") == "text/plain; charset=utf-8")
        #expect(api.pages.replace(with: [.terms: text]) == [.privacy, .support])
        #expect(await api.ask("/privacy", fields: []).status == .notFound)
    }

    @Test(arguments: [
        ("a.html", "text/html; charset=utf-8"), ("/x/A.HTM", "text/html; charset=utf-8"),
        ("a.b.md", "text/plain; charset=utf-8"), ("a.txt", "text/plain; charset=utf-8"), ("a.pdf", nil),
        ("html", nil), (".html", nil), ("a.html/b", nil), ("", nil), ("a.", nil),
    ])
    func `the extension decides the media type`(path: String, mediaType: String?) {
        #expect(PublicPage.mediaType(ofFile: path) == mediaType)
    }
}
