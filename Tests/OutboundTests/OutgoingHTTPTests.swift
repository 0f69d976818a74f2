// Tests the limits of outgoing calls, with a server that misbehaves. No test measures time: if a call's deadline had no
// effect, the test would exceed its own time limit.

import Foundation
import Testing

@testable import Outbound

@Suite(.timeLimit(.minutes(1))) struct OutgoingHTTPTests {
    private func outcome(
        _ http: OutgoingHTTP, _ request: OutgoingRequest, timeoutMilliseconds: Int = 20_000,
        answerBytesMax: Int = 10_000
    ) async -> Result<OutgoingResponse, OutgoingFailure> {
        do throws(OutgoingFailure) {
            return .success(
                try await http.send(request, timeoutMilliseconds: timeoutMilliseconds, answerBytesMax: answerBytesMax))
        } catch {
            return .failure(error)
        }
    }

    private func outcome(
        _ behaviour: Behaviour, timeoutMilliseconds: Int = 20_000
    ) async throws -> Result<OutgoingResponse, OutgoingFailure>? {
        var result: Result<OutgoingResponse, OutgoingFailure>?
        try await LoopbackServer.with(.always(behaviour)) { _, url, http in
            result = await outcome(http, OutgoingRequest(.get, url), timeoutMilliseconds: timeoutMilliseconds)
        }
        return result
    }

    // MARK: Successful calls

    @Test func anAnswerAsItCame() async throws {
        for status in [200, 204, 400, 404, 429, 500, 503] {
            let body = status == 204 ? "" : "{}"
            let answer = try await outcome(.answer(status, body, fields: "Cache-Control: max-age=5\r\n"))
            let expected = OutgoingResponse(status: status, cacheControl: "max-age=5", body: Array(body.utf8))
            #expect(answer == .success(expected))
        }
    }

    @Test func theContentTypeAsItCame() async throws {
        let answer = try await outcome(.answer(200, "{}", fields: "Content-Type: Application/JSON; charset=utf-8\r\n"))
        #expect(try answer?.get().contentType == "Application/JSON; charset=utf-8")
        #expect(try await outcome(.answer(200, "{}"))?.get().contentType == nil)
    }

    @Test func aRequestAsItIsMeant() async throws {
        try await LoopbackServer.with(.always(.answer(200))) { server, url, http in
            let request = OutgoingRequest(
                .post, url, fields: [("Content-Type", "text/x"), ("X-Own", "ü")], body: Array("a\u{0}b".utf8))
            _ = await outcome(http, request)
            let received = try #require(server.requests.first)
            #expect(received.head.hasPrefix("POST /start HTTP/1.1\r\n"))
            #expect(received.field("Content-Type") == "text/x")
            #expect(received.field("User-Agent") == "dwell")
            #expect(received.body == Array("a\u{0}b".utf8))
        }
    }

    @Test func nothingIsRememberedBetweenCalls() async throws {
        let fields = "Set-Cookie: a=b\r\nCache-Control: max-age=600\r\nETag: \"x\"\r\n"
        try await LoopbackServer.with(.always(.answer(200, "{}", fields: fields))) { server, url, http in
            for _ in 0..<3 { _ = await outcome(http, OutgoingRequest(.get, url)) }
            #expect(server.requests.count == 3)
            for request in server.requests {
                #expect(request.field("Cookie") == nil)
                #expect(request.field("If-None-Match") == nil)
            }
        }
    }

    // MARK: Time

    @Test(arguments: [
        Behaviour.stall(), .stall(after: "HTTP/1.1 200 OK\r\n"),
        .stall(after: "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf"), .drip(inHead: true), .drip(inHead: false),
    ])
    func aSlowServerIsLeft(behaviour: Behaviour) async throws {
        #expect(try await outcome(behaviour, timeoutMilliseconds: 300) == .failure(.timedOut))
    }

    /// 192.0.2.0/24 is reserved for documentation (RFC 5737). A connection attempt therefore gets no reply, or fails
    /// because there is no route.
    @Test func aConnectionThatIsNotMade() async throws {
        let http = OutgoingHTTP()
        defer { http.close() }
        let url = try #require(URL(string: "http://192.0.2.1/"))
        let result = await outcome(http, OutgoingRequest(.get, url), timeoutMilliseconds: 300)
        #expect(result == .failure(.timedOut) || result == .failure(.unreachable))
    }

    @Test func aCallerWhoGivesUpDoesNotWait() async throws {
        try await LoopbackServer.with(.always(.stall())) { server, url, http in
            let call = Task { await outcome(http, OutgoingRequest(.get, url), timeoutMilliseconds: 600_000) }
            await server.waitForRequests(1)
            call.cancel()
            #expect(await call.value == .failure(.cancelled))
            let late = Task {
                withUnsafeCurrentTask { $0?.cancel() }
                return await outcome(http, OutgoingRequest(.get, url), timeoutMilliseconds: 600_000)
            }
            #expect(await late.value == .failure(.cancelled))
        }
    }

    @Test func closingEndsWhatIsUnderWay() async throws {
        try await LoopbackServer.with(.always(.stall())) { server, url, http in
            let call = Task { await outcome(http, OutgoingRequest(.get, url), timeoutMilliseconds: 600_000) }
            await server.waitForRequests(1)
            http.close()
            #expect(await call.value == .failure(.cancelled))
            #expect(await outcome(http, OutgoingRequest(.get, url)) == .failure(.busy))
        }
    }

    // MARK: Size

    @Test func anAnswerUpToTheBound() async throws {
        let body = String(repeating: "x", count: 10_000)
        #expect(try await outcome(.answer(200, body))?.get().body.count == 10_000)
        #expect(try await outcome(.answer(200, body + "x")) == .failure(.answerTooLong))
    }

    @Test func anAnswerWithoutAnEnd() async throws {
        #expect(try await outcome(.endless) == .failure(.answerTooLong))
    }

    @Test func anAnswerThatPromisesTooMuch() async throws {
        let lie = "HTTP/1.1 200 OK\r\nContent-Length: 99999999999\r\n\r\n"
        #expect(try await outcome(.stall(after: lie)) == .failure(.answerTooLong))
    }

    /// The client requests no compression, so it does not decompress the content.
    @Test func contentIsTakenAsItCame() async throws {
        let head = "HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 4\r\n\r\n"
        try await LoopbackServer.with(.always(.bytes(Array(head.utf8) + [0x1F, 0x8B, 8, 0]))) { server, url, http in
            let result = await outcome(http, OutgoingRequest(.get, url))
            #expect(result == .success(.init(status: 200, body: [0x1F, 0x8B, 8, 0])))
            #expect(server.requests.first?.field("Accept-Encoding") == nil)
        }
    }

    @Test func aHeadWithoutAnEnd() async throws {
        let line = "X-Filler: " + String(repeating: "x", count: 1000) + "\r\n"
        let head = "HTTP/1.1 200 OK\r\n" + String(repeating: line, count: 100)
        #expect(try await outcome(.stall(after: head)) == .failure(.answerTooLong))
    }

    // MARK: Wrong or missing responses

    @Test(arguments: [301, 302, 303, 307, 308])
    func aRedirectionIsNotFollowed(status: Int) async throws {
        try await LoopbackServer.with(
            .each { request, _ in
                request.path == "/start" ? .answer(status, "", fields: "Location: /elsewhere\r\n") : .answer(200, "{}")
            }
        ) { server, url, http in
            for method in [OutgoingRequest.Method.get, .post] {
                let result = await outcome(http, OutgoingRequest(method, url, body: Array("secret".utf8)))
                #expect(result == .failure(.redirected))
            }
            _ = await outcome(http, OutgoingRequest(.get, url.appending(path: "other")))
            #expect(server.requests.map(\.path) == ["/start", "/start", "/start/other"])
        }
    }

    @Test func callersWhoGiveUpAtAnyMoment() async throws {
        try await LoopbackServer.with(
            .each { _, number in
                number % 2 == 0 ? .answer(302, "", fields: "Location: /x\r\n") : .stall()
            }
        ) { _, url, _ in
            let http = OutgoingHTTP(callsMax: 300)
            await withTaskGroup(of: Void.self) { group in
                for number in 0..<300 {
                    group.addTask {
                        let call = Task { await outcome(http, OutgoingRequest(.get, url)) }
                        try? await Task.sleep(for: .microseconds(number * 50))
                        call.cancel()
                        let result = await call.value
                        #expect(throws: OutgoingFailure.self) { try result.get() }
                    }
                }
            }
        }
    }

    @Test(arguments: [
        "http://", "//", "///", "http:///x", "//[", "http://[::1", "//%zz/", "?", "#", "mailto:a@b",
        "http://127.0.0.1:99999/",
        "//user@:1/", "/%00", "\u{7F}", "http://ex ample/", "//xn--/", ":", "1:2", "//a?%#%",
    ])
    func aRedirectionToNowhere(location: String) async throws {
        let result = try await outcome(.answer(302, "", fields: "Location: \(location)\r\n"))
        #expect(result == .failure(.redirected))
    }

    @Test(arguments: [
        Behaviour.text(""), .text("HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf"), .text("HTTP/1.1 2"),
        .text("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhe"),
        .text("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n"), .text("SSH-2.0-OpenSSH_9.2\r\n"),
    ])
    func anAnswerThatBreaksOffIsNone(behaviour: Behaviour) async throws {
        #expect(try await outcome(behaviour) == .failure(.unreachable))
    }

    @Test func nobodyThere() async throws {
        let http = OutgoingHTTP()
        defer { http.close() }
        #expect(await outcome(http, OutgoingRequest(.get, try await deadURL())) == .failure(.unreachable))
    }

    /// The server answers the first request on a connection, and ends the connection without an answer after the
    /// second. The second call must fail at once, and must not be sent again.
    @Test func aConnectionThatEndsBetweenCalls() async throws {
        try await LoopbackServer.with(.each { _, number in number % 2 == 1 ? .answer(200) : .text("") }) {
            server, url, http in
            let request = OutgoingRequest(.post, url, body: Array("body".utf8))
            for _ in 0..<3 {
                #expect(await outcome(http, request) == .success(.init(status: 200, body: [])))
                #expect(await outcome(http, request) == .failure(.unreachable))
            }
            #expect(server.requests.count == 6)
        }
    }

    @Test(.enabled(if: UntrustedServer.isPossible)) func aCertificateThatNobodyVouchesFor() async throws {
        let server = try UntrustedServer()
        defer { server.stop() }
        let request = OutgoingRequest(.post, server.url, body: Array("secret".utf8))
        #expect(await outcome(OutgoingHTTP(), request) == .failure(.notTrusted))
    }

    @Test(arguments: ["file:///etc/passwd", "ftp://127.0.0.1/", "gopher://127.0.0.1/", "telnet://127.0.0.1/"])
    func onlyHTTP(text: String) async throws {
        let url = try #require(URL(string: text))
        #expect(await outcome(OutgoingHTTP(), OutgoingRequest(.get, url)) == .failure(.unreachable))
    }

    // MARK: Number of calls

    @Test func callsAreCounted() async throws {
        try await LoopbackServer.with(.each { request, _ in request.path == "/start" ? .stall() : .answer(200) }) {
            server, url, _ in
            let http = OutgoingHTTP(callsMax: 2)
            defer { http.close() }
            let calls = (0..<2).map { _ in
                Task { await outcome(http, OutgoingRequest(.get, url), timeoutMilliseconds: 600_000) }
            }
            await server.waitForRequests(2)
            let other = url.deletingLastPathComponent().appending(path: "other")
            #expect(await outcome(http, OutgoingRequest(.get, other)) == .failure(.busy))
            for call in calls { call.cancel() }
            for call in calls { _ = await call.value }
            // A cancelled call counts against `callsMax` until its thread has ended. Meanwhile, another call may fail
            // as busy.
            var last = await outcome(http, OutgoingRequest(.get, other))
            while last == .failure(.busy) {
                await Task.yield()
                last = await outcome(http, OutgoingRequest(.get, other))
            }
            #expect(last == .success(.init(status: 200, body: [])))
        }
    }
}
