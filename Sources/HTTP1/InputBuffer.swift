// The received bytes that are not yet interpreted. The parsers take them by line or by count.
//
// The search for a line end visits each byte once, no matter how few bytes each read returns. On average, each byte is
// moved at most once.
//
// A line ends with CRLF (RFC 9112 section 2.2). A line that ends with LF alone gives `bareLineFeed`. A CR inside a line
// is rejected by the parser of that line.

struct InputBuffer: Sendable {
    enum Line: Hashable {
        /// The end of the line was not received yet.
        case incomplete
        /// The line is longer than allowed, whether or not its end was received.
        case tooLong
        case bareLineFeed
        /// The line without its CRLF. The range is valid until the next `append`.
        case complete(Range<Int>)
    }

    private(set) var bytes: [UInt8] = []
    private var start = 0
    /// The index at which the search for LF continues. It is never below `start`.
    private var searched = 0

    /// The bytes not taken yet.
    var available: Range<Int> { start..<bytes.count }

    mutating func append(_ new: UnsafeRawBufferPointer) {
        makeRoom()
        bytes.append(contentsOf: new)
    }

    /// Takes the line and its CRLF if the line is complete and has at most `bytesMax` bytes without the CRLF. In all
    /// other cases, takes nothing. The result does not depend on how the bytes were split into reads.
    mutating func takeLine(bytesMax: Int) -> Line {
        let end = bytes.count
        let index = Grammar.endOfLine(bytes, from: searched)
        searched = index
        let lengthWithReturn = index - start
        guard lengthWithReturn - 1 <= bytesMax else { return .tooLong }
        guard index < end else { return .incomplete }
        guard index > start, bytes[index - 1] == Grammar.carriageReturn else { return .bareLineFeed }
        defer { take(lengthWithReturn + 1) }
        return .complete(start..<(index - 1))
    }

    /// Takes up to `max` bytes. The range is valid until the next `append`.
    mutating func takeBytes(max: Int) -> Range<Int> {
        let range = start..<(start + min(max, bytes.count - start))
        take(range.count)
        return range
    }

    mutating func removeAll() {
        bytes = []
        start = 0
        searched = 0
    }

    /// Frees the buffer if it is empty and large. Called between requests.
    mutating func releaseIfIdle() {
        if available.isEmpty, bytes.capacity > Limits.idleBufferBytesMax { removeAll() }
    }

    private mutating func take(_ count: Int) {
        start += count
        searched = start
    }

    /// Drops the taken bytes as soon as they are at least half of the buffer. Each byte is therefore moved at most once
    /// on average.
    private mutating func makeRoom() {
        guard start > 0, start >= bytes.count - start else { return }
        if start == bytes.count {
            bytes.removeAll(keepingCapacity: true)
        } else {
            bytes.removeFirst(start)
        }
        searched -= start
        start = 0
    }
}
