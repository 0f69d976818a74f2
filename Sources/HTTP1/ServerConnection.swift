// The protocol of one HTTP/1.1 server connection, without I/O (RFC 9112, RFC 9110). It turns received bytes into
// events, and responses into bytes to send. The owner of the connection reads, writes, enforces the deadlines, and asks
// for the next event.
//
// Theory of operation. There are two state machines, which are synchronized once per request:
//
//   receiving   head -> content | chunks -> complete
//                |              |
//                +--------------+--> refused          anywhere ---> closed
//
//   answering   notDue -> due -> (streaming ->) answered
//
// The event `.head` makes a response due. When the request is complete and answered, both machines start again with the
// next request. Pipelined requests are therefore handled one at a time.
//
// In the following cases, the connection is `closed` after the response, and all later bytes are dropped unread:
//   - the request was refused; after broken framing, it is unknown where the next request begins (RFC 9112 section 6.3)
//   - the request was answered before it was complete; the rest of its content must not be read as a request
//   - the client or the server asked for close (RFC 9112 section 9.6)
//   - the response has content of unknown length and the client uses HTTP/1.0, so the close ends the content
//
// Bytes that arrive after a refusal, after the end of the input, or in `closed` are dropped.
//
// An encoding function appends nothing and returns false in three cases: in `closed`, for a second head, and for a
// chunk outside a streamed response.
//
// A response may also be encoded before the first request, or between two requests. The connection ends after such a
// response.
//
// `nextEvent()` repeats `.responseDue` until the response is encoded. How the received bytes are split into reads
// affects only how the content is split into `.body` events.

/// Not copyable, because its buffers belong to one connection, and an accidental copy would take longer than serving a
/// request.
package struct ServerConnection: ~Copyable, Sendable {
    package enum Event: Hashable, Sendable {
        /// Read more, then ask for the next event again.
        case needMoreData
        case head(RequestHead)
        /// The next bytes of the content, never empty.
        case body([UInt8])
        /// The request is complete. Only chunked content can have trailers.
        case end(trailers: Fields)
        /// The request is refused. Respond with this refusal, then close. Only `.responseDue` and `.closed` follow.
        case refused(Refusal)
        /// All events of the request were delivered. No other event follows until the response is encoded.
        case responseDue
        /// The peer ended its sending direction between two requests.
        case endOfStream
        /// The peer ended its sending direction inside a request.
        case truncated
        /// No further event follows, and received bytes are dropped. Flush the output, then close.
        case closed
    }

    /// What the connection waits for. The phase determines the deadline.
    package enum Phase: Hashable, Sendable {
        /// Between requests: no byte of the next request was received.
        case idle
        /// A part of a head was received.
        case head
        /// The head was delivered, and the content is not complete.
        case content
        /// The request is complete or refused, and the response is not complete.
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

    enum Responding: Hashable {
        case notDue
        case due
        case streaming(ResponseFraming)
        case answered
    }

    private let limits: Limits
    private var receiving = Receiving.head
    private(set) var answering = Responding.notDue
    private var input = InputBuffer()
    private var inputEnded = false

    // State of the current request.
    private var head = HeadReader()
    private(set) var minorVersion = 1
    private var chunks = ChunkedDecoder()
    private var contentBytesMax: Int
    private var refusal: Refusal?
    private var waitsForContinue = false

    /// Whether the connection ends with the current response. The value can become true at any time before the response
    /// begins, and never becomes false again.
    package private(set) var mustClose = false

    package init(limits: Limits = Limits()) {
        self.limits = limits
        contentBytesMax = limits.bodyBytesMax
    }

    // MARK: Receiving

    /// Appends received bytes. If the caller reads only after `.needMoreData`, the buffer stays smaller than one field
    /// section plus one read.
    package mutating func receive(_ bytes: UnsafeRawBufferPointer) {
        guard !inputEnded, receiving != .refused, receiving != .closed else { return }
        input.append(bytes)
    }

    package mutating func receive(_ bytes: some Sequence<UInt8>) {
        Array(bytes).withUnsafeBytes { receive($0) }
    }

    /// Records that the peer sends no more bytes. Requests that were received completely are still answered.
    package mutating func receiveEndOfStream() {
        inputEnded = true
    }

    /// Returns the next event that the received bytes allow.
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

    /// Limits the content of this request. Must be called after `.head` and before the next event. A limit above
    /// `Limits.bodyBytesMax` has no effect.
    ///
    /// Longer content is refused with 413. If the declared length already exceeds the limit, none of the content is
    /// delivered.
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

    /// The number of received bytes of this request and of later requests that are not interpreted yet.
    package var bufferedBytes: Int { input.available.count }

    /// The field lines of the current request that were read so far. If the request was refused, the result contains
    /// only the lines before the error.
    package var receivedFields: Fields { head.fields }

    /// Whether the method of the current request is known to be GET, HEAD or OPTIONS. TRACE is also safe (RFC 9110
    /// section 9.2.1), but is not served and counts as unsafe.
    package var isSafeRequest: Bool {
        let method = head.method(in: input)
        return method == .get || method == .head || method == .options
    }

    /// The capacity of the input buffer in bytes.
    package var inputCapacityBytes: Int { input.bytes.capacity }

    /// The memory of `receivedFields`, in bytes.
    package var fieldsCapacityBytes: Int { head.fields.capacityBytes }

    /// The maximum number of content bytes that can still follow. With Content-Length, this is the unread part of the
    /// declared length.
    ///
    /// With chunks, this is the unread rest of the current chunk, plus the bytes that the limit leaves for further
    /// chunks.
    package var contentBytesLeftMax: Int {
        switch receiving {
        case .content(let left): left
        case .chunks: chunks.chunkBytesLeft + max(0, contentBytesMax - chunks.contentBytes)
        default: 0
        }
    }

    /// Whether 100 (Continue) must be sent: the request expects it, no content has arrived, and the request is not
    /// refused (RFC 9110 section 10.1.1).
    ///
    /// Valid only after `.needMoreData`. Before that event, `limitBody` may not have been called yet, and the limit of
    /// the route can lead to a refusal.
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

    /// If an error follows decoded content, delivers the content first; the refusal is the next event. The events
    /// therefore do not depend on how the bytes were split into reads.
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
        head = HeadReader()
    }
}

// MARK: - Transitions of the answering side

extension ServerConnection {
    /// Whether the request is a HEAD request (RFC 9110 section 9.3.2). Known as soon as the method is read, even if the
    /// rest of the head is rejected.
    var answersHead: Bool { head.method == .head }

    /// Begins the response of this request. Returns false if the connection is closed, or if the response has already
    /// begun.
    ///
    /// A response such as 408 or 503 may begin even before a head was received. Such a response ends the connection.
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

    /// Returns whether 100 (Continue) is due. After this call, it is no longer due for this request.
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
