// One connection of an HTTP/1.1 server, without the connection: bytes in, events out; a response in, bytes out
// (RFC 9112, RFC 9110). It never sees a descriptor, a clock or a route. Who owns it reads and writes, keeps the
// deadlines, and asks for the next event.
//
// Theory of operation. Two sides move, and they meet once per request:
//
//   receiving   head -> content | chunks -> complete
//                |              |
//                +--------------+--> refused          anywhere ---> closed
//
//   answering   notDue -> due -> (streaming ->) answered
//
// `.head` makes an answer due. When the request is complete and answered, both sides start over with the bytes that
// are left: that is pipelining, one request at a time. The connection ends instead - `closed`, whatever is left is
// dropped unread - when one of these holds:
//   - the request was refused: after broken framing no byte has a known meaning (section 6.3)
//   - it was answered before it was complete: the rest of its content would be read as a request
//   - the client or the server asked for close (section 9.6), or the end of the response is the end of the
//     connection (content of unknown length to HTTP/1.0)
//
// What a caller can get wrong does no harm: bytes after the end are dropped, an answer that is not due encodes
// nothing and says so, and `nextEvent()` repeats `.responseDue` until the answer was encoded.
// The same bytes give the same events however they were cut, except that `.body` may come in other pieces.

/// Not copyable: its buffers belong to one connection, and a copy made by accident costs more than a request.
package struct ServerConnection: ~Copyable, Sendable {
    package enum Event: Hashable, Sendable {
        /// Read on, then ask again.
        case needMoreData
        case head(RequestHead)
        /// The next bytes of the content, never empty.
        case body([UInt8])
        /// The request is complete. Trailers are empty unless the content was chunked.
        case end(trailers: Fields)
        /// Answer with this, then close. At most once, and the last that is said about any request.
        case refused(Refusal)
        /// The request was handed out; nothing follows until its answer was encoded.
        case responseDue
        /// The peer closed between two requests.
        case endOfStream
        /// The peer closed inside a request.
        case truncated
        /// Nothing follows; what arrives is dropped. Flush, then close.
        case closed
    }

    /// Which deadline applies while waiting.
    package enum Phase: Hashable, Sendable {
        /// Between requests, nothing received.
        case idle
        /// Some of a head was received.
        case head
        /// The head was handed out, its content is not complete.
        case content
        /// The request is complete or refused, its answer is not.
        case response
        case closed
    }

    enum Receiving: Hashable {
        case head
        case content(left: Int)
        case chunks
        case complete
        case refused
        case closed
    }

    enum Answering: Hashable {
        case notDue
        case due
        case streaming(ResponseFraming)
        case answered
    }

    private let limits: Limits
    private var receiving = Receiving.head
    private(set) var answering = Answering.notDue
    private var input = InputBuffer()
    private var inputEnded = false

    // Of the request in hand.
    private var head = HeadReader()
    private(set) var minorVersion = 1
    private var chunks = ChunkedDecoder()
    private var contentBytesMax: Int
    private var refusal: Refusal?
    private var waitsForContinue = false

    /// The connection ends with the response in hand. May turn true until that response is begun, never back.
    package private(set) var mustClose = false

    package init(limits: Limits = Limits()) {
        self.limits = limits
        contentBytesMax = limits.bodyBytesMax
    }

    // MARK: Receiving

    /// Appends what was read. Read only after `.needMoreData`, and the buffer stays below one field section plus
    /// one read.
    package mutating func receive(_ bytes: UnsafeRawBufferPointer) {
        guard !inputEnded, receiving != .refused, receiving != .closed else { return }
        input.append(bytes)
    }

    package mutating func receive(_ bytes: some Sequence<UInt8>) {
        Array(bytes).withUnsafeBytes { receive($0) }
    }

    /// The peer will send no more. What was received before is still served.
    package mutating func receiveEndOfStream() {
        inputEnded = true
    }

    /// Moves on as far as the bytes allow.
    package mutating func nextEvent() -> Event {
        do throws(Refusal) {
            switch receiving {
            case .head:
                guard let head = try head.read(&input, limits: limits) else { return waitForData() }
                return begin(head)
            case .content(let left):
                if let refusal { throw refusal }
                return readContent(left: left)
            case .chunks:
                return try readChunks()
            case .complete, .refused:
                return .responseDue
            case .closed:
                return .closed
            }
        } catch {
            return refuse(error)
        }
    }

    /// The longest content that this request may have; call it between `.head` and the next event. It can lower
    /// `Limits.bodyBytesMax`, not raise it. Longer content, declared or received, ends in a refusal with 413,
    /// before any of it is handed out when its length was declared.
    package mutating func limitBody(toBytes bytesMax: Int) {
        guard answering == .due else { return }
        contentBytesMax = min(contentBytesMax, max(0, bytesMax))
        switch receiving {
        case .content(let left) where left > contentBytesMax: refusal = .contentTooLarge
        case .chunks where chunks.contentBytes > contentBytesMax: refusal = .contentTooLarge
        default: break
        }
    }

    package var phase: Phase {
        switch receiving {
        case .head: input.available.isEmpty && !head.hasRequestLine ? .idle : .head
        case .content, .chunks: .content
        case .complete, .refused: .response
        case .closed: .closed
        }
    }

    /// Received and not interpreted yet: the rest of this request, or the next ones.
    package var bufferedBytes: Int { input.available.count }

    /// The field lines of the request in hand, as far as they were read; of a refused one, those before the fault.
    package var receivedFields: Fields { head.fields }

    /// What was received of the request in hand names a method that changes nothing (RFC 9110 section 9.2.1).
    package var isSafeRequest: Bool {
        let method = head.method(in: input)
        return method == .get || method == .head || method == .options
    }

    /// The memory that the input buffer takes, what was interpreted already included.
    package var inputCapacityBytes: Int { input.bytes.capacity }

    /// The client waits for 100 (Continue): none of the content that it announced has come, and it is not refused.
    /// Ask after `.needMoreData`: the limits of the route have been applied by then (RFC 9110 section 10.1.1).
    package var isContinueDue: Bool {
        guard waitsForContinue, answering == .due, refusal == nil, input.available.isEmpty else { return false }
        return switch receiving {
        case .content(let left): left > 0
        case .chunks: true
        default: false
        }
    }
}

// MARK: - Transitions of the receiving side

extension ServerConnection {
    private mutating func begin(_ head: consuming RequestHead) -> Event {
        minorVersion = head.minorVersion
        waitsForContinue = head.expectsContinue
        mustClose = mustClose || !head.keepAlive
        answering = .due
        switch head.framing {
        case .none: receiving = .content(left: 0)
        case .length(let length): receiving = .content(left: length)
        case .chunked: receiving = .chunks
        }
        limitBody(toBytes: limits.bodyBytesMax)
        return .head(head)
    }

    private mutating func readContent(left: Int) -> Event {
        guard left > 0 else { return complete(trailers: Fields()) }
        let range = input.takeBytes(max: left)
        guard !range.isEmpty else { return waitForData() }
        waitsForContinue = false
        receiving = .content(left: left - range.count)
        return .body(Array(input.bytes[range]))
    }

    /// What was decoded before a refusal is handed out first, so that the events do not depend on the cuts.
    private mutating func readChunks() throws(Refusal) -> Event {
        if let refusal { throw refusal }
        var content: [UInt8] = []
        var isComplete = false
        do throws(Refusal) {
            isComplete = try chunks.decode(
                &input, into: &content, contentBytesMax: contentBytesMax, limits: limits)
        } catch {
            refusal = error
        }
        if !content.isEmpty {
            waitsForContinue = false
            return .body(content)
        }
        if let refusal { throw refusal }
        return isComplete ? complete(trailers: chunks.trailers) : waitForData()
    }

    private mutating func complete(trailers: Fields) -> Event {
        receiving = .complete
        return .end(trailers: trailers)
    }

    private mutating func refuse(_ refusal: Refusal) -> Event {
        receiving = .refused
        if answering == .notDue { answering = .due }
        mustClose = true
        input.removeAll()
        return .refused(refusal)
    }

    private mutating func waitForData() -> Event {
        guard inputEnded else { return .needMoreData }
        let isBetweenRequests = phase == .idle
        close()
        return isBetweenRequests ? .endOfStream : .truncated
    }

    private mutating func close() {
        receiving = .closed
        mustClose = true
        input.removeAll()
    }
}

// MARK: - Transitions of the answering side

extension ServerConnection {
    /// RFC 9110 section 9.3.2: known from the request line on, whatever became of the rest.
    var answersHead: Bool { head.method == .head }

    /// Begins the one answer of this request. Also before any head, for a 408 or a 503 that ends the connection.
    /// False when no answer is due.
    mutating func beginAnswer(close: Bool, framing: ResponseFraming) -> Bool {
        guard receiving != .closed, answering == .due || answering == .notDue else { return false }
        mustClose = mustClose || close || framing == .untilClose || receiving != .complete
        answering = .streaming(framing)
        return true
    }

    mutating func finishAnswer() {
        answering = .answered
        waitsForContinue = false
        if mustClose {
            close()
        } else {
            startNextRequest()
        }
    }

    /// False when nobody waits for it.
    mutating func takeContinue() -> Bool {
        let isDue = isContinueDue
        waitsForContinue = false
        return isDue
    }

    private mutating func startNextRequest() {
        receiving = .head
        answering = .notDue
        head = HeadReader()
        minorVersion = 1
        chunks = ChunkedDecoder()
        contentBytesMax = limits.bodyBytesMax
        refusal = nil
        input.releaseIfIdle()
    }
}
