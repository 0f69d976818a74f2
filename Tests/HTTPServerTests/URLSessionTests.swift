// Tests the server over loopback with URLSession, the HTTP client of Swift apps. On systems other than Apple's,
// URLSession uses libcurl.

import Foundation
import Synchronization
import Testing

@testable import HTTP1
@testable import HTTPServer
@testable import Sockets

#if canImport(FoundationNetworking)
    import FoundationNetworking
#endif

@Suite struct URLSessionTests {
    private static let session = URLSession(configuration: .ephemeral)
    private static let large = Route(.post, "/large", bodyBytesMax: 1 << 20) { request in
        Response(status: .ok, body: .bytes(Array(String(request.body.count).utf8)))
    }

    private func url(_ test: TestServer, _ path: String) throws -> URL {
        try #require(URL(string: "http://\(test.addresses[0])\(path)"))
    }

    private func ask(_ request: URLRequest) async throws -> (status: Int, fields: HTTPURLResponse, text: String) {
        let (data, response) = try await Self.session.data(for: request)
        let http = try #require(response as? HTTPURLResponse)
        return (http.statusCode, http, String(decoding: data, as: UTF8.self))
    }

    @Test func `GET, HEAD and POST, one after the other`() async throws {
        try await withServer([.hello, .echo]) { test in
            for _ in 0..<20 {
                let hello = try await ask(URLRequest(url: url(test, "/hello")))
                #expect(hello.status == 200 && hello.text == "hello")
            }
            var head = URLRequest(url: try url(test, "/hello"))
            head.httpMethod = "HEAD"
            let headed = try await ask(head)
            #expect(headed.status == 200 && headed.text.isEmpty)
            #expect(headed.fields.value(forHTTPHeaderField: "Content-Length") == "5")
            var post = URLRequest(url: try url(test, "/echo"))
            post.httpMethod = "POST"
            post.httpBody = Data("said".utf8)
            #expect(try await ask(post).text == "said")
            #expect(try await ask(URLRequest(url: url(test, "/nowhere"))).status == 404)
        }
    }

    @Test func `large uploads with a known length, with an unknown length, and beyond the limit`() async throws {
        try await withServer([Self.large]) { test in
            let content = Data(repeating: 7, count: 1 << 20)
            var upload = URLRequest(url: try url(test, "/large"))
            upload.httpMethod = "POST"
            upload.httpBody = content
            #expect(try await ask(upload).text == "\(content.count)")
            upload.httpBody = nil
            upload.httpBodyStream = InputStream(data: content)
            #expect(try await ask(upload).text == "\(content.count)")
            upload.httpBodyStream = nil
            upload.httpBody = content + [7]
            #expect(try await ask(upload).status == 413)
        }
    }

    @Test func `many at once`() async throws {
        try await withServer([.number]) { test in
            try await withThrowingTaskGroup(of: Bool.self) { group in
                for number in 0..<200 {
                    let request = URLRequest(url: try url(test, "/number/\(number)"))
                    group.addTask { try await ask(request).text == "\(number)" }
                }
                for try await isRight in group { #expect(isRight) }
            }
        }
    }

    @Test func `one that is cancelled while the handler runs leaves the others alone, and the handler ends`()
        async throws
    {
        let (started, starts) = AsyncStream<Void>.makeStream()
        let (finished, finishes) = AsyncStream<Void>.makeStream()
        let gate = Latch()
        let slow = Route(.get, "/slow") { _ in
            starts.yield()
            await gate.wait()
            finishes.yield()
            return Response(status: .ok)
        }
        try await withServer([slow, .hello]) { test in
            let request = URLRequest(url: try url(test, "/slow"))
            let asking = Task { try await ask(request).status }
            for await _ in started { break }
            asking.cancel()
            await #expect(throws: (any Error).self) { try await asking.value }
            #expect(try await ask(URLRequest(url: url(test, "/hello"))).text == "hello")
            gate.reach()
            for await _ in finished { break }
        }
    }
}
