// Tests of `ServerConnection` as a state machine. Incorrect calls by its owner must do no harm.

import HTTP1
import Testing

@Suite final class ServerConnectionTests {
    private var connection = ServerConnection()
    private var output: [UInt8] = []

    // MARK: Events and phases

    @Test func theEventsOfOneRequestInOrder() {
        #expect(connection.phase == .idle)
        #expect(next() == .needMoreData)
        connection.receive("POST /a?b HTTP/1.1\r\nHost: h:1\r\nX: y\r\n".utf8)
        #expect(next() == .needMoreData)
        #expect(connection.phase == .head)
        connection.receive("Content-Length: 3\r\n\r\nab".utf8)
        guard case .head(let head) = next() else {
            Issue.record("no head")
            return
        }
        #expect(head.method == .post && head.path == "/a" && head.query == "b" && head.authority == "h:1")
        #expect(head.minorVersion == 1 && head.framing == .length(3) && head.keepAlive && !head.expectsContinue)
        #expect(head.fields == Fields([("Host", "h:1"), ("X", "y"), ("Content-Length", "3")]))
        #expect(connection.phase == .content)
        #expect(next() == .body([0x61, 0x62]))
        #expect(next() == .needMoreData)
        connection.receive("c".utf8)
        #expect(next() == .body([0x63]))
        #expect(next() == .end(trailers: Fields()))
        #expect(connection.phase == .response)
        #expect(next() == .responseDue)
        #expect(answer(.ok))
        #expect(connection.phase == .idle && !connection.mustClose)
        #expect(next() == .needMoreData)
    }

    @Test func repeatedFieldsKeepTheirOrderAndTheirValues() {
        connection.receive(get(fields: "A: 1\r\nB:\t2 \r\na: 3\r\nC:\r\n").utf8)
        guard case .head(let head) = next() else {
            Issue.record("no head")
            return
        }
        #expect(head.fields.values("a") == ["1", "3"])
        #expect(head.fields.first("B") == "2" && head.fields.first("c")?.isEmpty == true)
    }

    @Test func theAuthorityOfAbsoluteFormReplacesHost() {
        connection.receive(get("http://b:8080/c").utf8)
        guard case .head(let head) = next() else {
            Issue.record("no head")
            return
        }
        #expect(head.authority == "b:8080" && head.fields.first("Host") == "a")
    }

    @Test func oneRequestIsHandedOutAtATime() {
        connection.receive((get("/1") + get("/2")).utf8)
        _ = next()
        _ = next()
        for _ in 0..<3 { #expect(next() == .responseDue) }
        #expect(connection.bufferedBytes == get("/2").utf8.count)
        answer(.ok)
        guard case .head(let head) = next() else {
            Issue.record("no second head")
            return
        }
        #expect(head.path == "/2")
    }

    @Test func manySmallChunksComeInOneEvent() {
        connection.receive(chunked("1\r\na\r\n1\r\nb\r\n1\r\nc\r\n0\r\n\r\n").utf8)
        _ = next()
        #expect(next() == .body([0x61, 0x62, 0x63]))
        #expect(next() == .end(trailers: Fields()))
    }

    @Test func aClientThatHalfClosesIsStillAnswered() {
        connection.receive(get("/").utf8)
        connection.receiveEndOfStream()
        _ = next()
        #expect(next() == .end(trailers: Fields()))
        #expect(next() == .responseDue)
        #expect(answer(.ok))
        #expect(next() == .endOfStream)
        #expect(next() == .closed)
    }

    // MARK: Limits of one request

    @Test func aDeclaredLengthOverTheRoutesLimitIsRefusedBeforeAnyContent() {
        connection.receive(post("Content-Length: 5\r\n", "hello").utf8)
        _ = next()
        connection.limitBody(toBytes: 4)
        expectRefusal(413)
    }

    @Test func aDeclaredLengthAtTheLimitIsServed() {
        connection.receive(post("Content-Length: 5\r\n", "hello").utf8)
        _ = next()
        connection.limitBody(toBytes: 5)
        #expect(next() == .body(Array("hello".utf8)))
    }

    @Test func chunksAreRefusedAsSoonAsTheirSizesAddUpToMore() {
        connection.receive(chunked("3\r\nabc\r\n").utf8)
        _ = next()
        connection.limitBody(toBytes: 5)
        #expect(next() == .body(Array("abc".utf8)))
        connection.receive("3\r\n".utf8)
        expectRefusal(413)
    }

    @Test func aLimitDoesNotOutliveItsRequestAndIsNeverRaised() {
        connection.receive((get("/") + post("Content-Length: 5\r\n", "hello")).utf8)
        _ = next()
        connection.limitBody(toBytes: -1)
        #expect(next() == .end(trailers: Fields()))
        answer(.ok)
        _ = next()
        #expect(next() == .body(Array("hello".utf8)))

        connection = ServerConnection()
        connection.receive(post("Content-Length: 1048577\r\n").utf8)
        _ = next()
        connection.limitBody(toBytes: .max)
        expectRefusal(413)
    }

    // MARK: 100 (Continue), RFC 9110 section 10.1.1

    private static let waiting = post("Expect: 100-continue\r\nContent-Length: 2\r\n")

    @Test func continueIsSentOnceToAClientThatWaits() {
        connection.receive(Self.waiting.utf8)
        _ = next()
        #expect(next() == .needMoreData)
        #expect(connection.isContinueDue == true)
        #expect(sayContinue())
        #expect(String(decoding: output, as: UTF8.self) == "HTTP/1.1 100 Continue\r\n\r\n")
        #expect(!connection.isContinueDue && !sayContinue())
        connection.receive("ab".utf8)
        #expect(next() == .body([0x61, 0x62]))
    }

    @Test func continueIsNotSentWhenContentHasCome() {
        connection.receive((Self.waiting + "a").utf8)
        _ = next()
        #expect(connection.isContinueDue == false)
        _ = next()
        #expect(!sayContinue() && output.isEmpty)
    }

    @Test func continueIsNotSentForContentThatIsRefused() {
        connection.receive(Self.waiting.utf8)
        _ = next()
        connection.limitBody(toBytes: 1)
        #expect(!connection.isContinueDue && !sayContinue())
        expectRefusal(413)
    }

    @Test(arguments: [
        "POST / HTTP/1.0\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n",
        post("Expect: 100-continue\r\n"), post("Expect: 100-continue\r\nContent-Length: 0\r\n"),
        post("Content-Length: 2\r\n"),
    ])
    func continueIsNotSentToOneWhoDoesNotWait(_ request: String) {
        connection.receive(request.utf8)
        _ = next()
        #expect(!connection.isContinueDue && !sayContinue() && output.isEmpty)
    }

    @Test func aFinalAnswerInsteadOfContinueEndsTheConnection() {
        connection.receive(Self.waiting.utf8)
        _ = next()
        #expect(answer(.unauthorized))
        #expect(connection.mustClose && next() == .closed)
    }

    // MARK: Misuse

    @Test func anAnswerBeforeTheContentWasReadEndsTheConnection() {
        connection.receive((post("Content-Length: 5\r\n", "he") + get("/smuggled")).utf8)
        _ = next()
        answer(.notFound)
        #expect(String(decoding: output, as: UTF8.self).contains("\r\nConnection: close\r\n"))
        #expect(next() == .closed)
        connection.receive(get("/again").utf8)
        #expect(connection.bufferedBytes == 0 && next() == .closed)
    }

    @Test func aSecondAnswerEncodesNothing() {
        connection.receive(get(fields: "Connection: close\r\n").utf8)
        _ = next()
        _ = next()
        #expect(answer(.ok))
        let first = output
        #expect(!answer(.ok))
        #expect(!begin())
        #expect(!chunk())
        #expect(!end())
        #expect(output == first)
    }

    @Test func aTimeoutInsideAHeadIsAnsweredAndEndsTheConnection() {
        connection.receive("GET / HTTP".utf8)
        #expect(next() == .needMoreData)
        #expect(answer(.requestTimeout))
        #expect(String(decoding: output, as: UTF8.self).hasPrefix("HTTP/1.1 408 Request Timeout\r\n"))
        #expect(connection.mustClose && next() == .closed)
    }

    @Test func aRefusalIsSaidOnceAndWhatFollowsIsDropped() {
        connection.receive("GET / HTTP/1.1\r\n\r\n".utf8)
        expectRefusal(400)
        connection.receive(get("/smuggled").utf8)
        #expect(next() == .responseDue && connection.bufferedBytes == 0)
        answer(.badRequest)
        #expect(next() == .closed)
    }

    @Test func aRefusalWhileStreamingCannotBeAnsweredTwice() {
        connection.receive(chunked("").utf8)
        _ = next()
        #expect(begin())
        connection.receive("x".utf8)
        connection.receive("\r\n".utf8)
        expectRefusal(400)
        #expect(!answer(.badRequest))
        #expect(end())
        #expect(next() == .closed)
    }

    @Test func bytesAfterTheEndOfTheStreamAreDropped() {
        connection.receiveEndOfStream()
        connection.receive(get("/").utf8)
        #expect(next() == .endOfStream)
    }

    // MARK: Memory

    @Test func noBytesOfManyRequestsAreLeftOver() {
        for _ in 0..<2000 {
            connection.receive(post("Content-Length: 3\r\n", "abc").utf8)
            _ = next()
            _ = next()
            _ = next()
            answer(.ok)
            #expect(connection.bufferedBytes == 0)
        }
    }

    /// The owner allocates memory for `contentBytesLeftMax` bytes. If this omitted the rest of a long chunk, the owner
    /// would allocate and copy again every few bytes.
    @Test func theRestOfAChunkIsPartOfTheContentThatCanFollow() {
        connection.receive(chunked("5\r\nab").utf8)
        _ = next()
        connection.limitBody(toBytes: 8)
        #expect(next() == .body(Array("ab".utf8)))
        #expect(connection.contentBytesLeftMax == 6)
        connection.receive("cde\r\n3\r\n".utf8)
        #expect(next() == .body(Array("cde".utf8)))
        #expect(connection.contentBytesLeftMax == 3)
    }

    // Wrappers for mutating calls, which #expect cannot make directly.

    private func next() -> ServerConnection.Event { connection.nextEvent() }

    @discardableResult private func answer(_ status: Status) -> Bool {
        connection.encode(status: status, dateText: "", into: &output)
    }

    private func begin() -> Bool { connection.encodeHead(status: .ok, dateText: "", into: &output) }
    private func chunk() -> Bool { connection.encodeChunk([1], into: &output) }
    private func end() -> Bool { connection.encodeEnd(into: &output) }
    private func sayContinue() -> Bool { connection.encodeContinue(into: &output) }

    private func expectRefusal(_ status: Int) {
        guard case .refused(let refusal) = next() else {
            Issue.record("not refused")
            return
        }
        #expect(refusal.status.code == status && !refusal.detail.isEmpty && connection.mustClose)
    }
}
