// Decodes content in chunked coding (RFC 9112 section 7.1).
//
// ```
// chunked-body    = *chunk last-chunk trailer-section CRLF
// chunk           = chunk-size [ chunk-ext ] CRLF chunk-data CRLF
// chunk-size      = 1*HEXDIG
// last-chunk      = 1*("0") [ chunk-ext ] CRLF
// trailer-section = *( field-line CRLF )
// ```
//
// The states are sizeLine -> data -> dataEnd -> sizeLine ... -> trailers -> done. After a refusal, the decoder must not
// be called again. Extensions are checked and dropped (section 7.1.1: unknown extensions MUST be ignored).

struct ChunkedDecoder: Sendable {
    private enum State: Hashable {
        case sizeLine
        case data(left: Int)
        case dataEnd
        case trailers
        case done
    }

    private var state = State.sizeLine
    /// The sum of all chunk sizes read so far, in bytes, including data that has not arrived. A size line that would
    /// bring the sum above `contentBytesMax` is refused.
    private(set) var contentBytes = 0
    private var extensionBytes = 0
    private var trailerSectionBytes = 0
    private(set) var trailers = Fields()

    /// The number of bytes of the current chunk that were not read yet.
    var chunkBytesLeft: Int { if case .data(let left) = state { left } else { 0 } }

    /// Decodes the available input and appends the data to `content`. Returns true when the content and its trailers
    /// are complete. If this function throws, the bytes appended so far are valid content.
    mutating func decode(
        _ input: inout InputBuffer, into content: inout [UInt8], contentBytesMax: Int, limits: Limits
    ) throws(Refusal) -> Bool {
        while state != .done {
            let advanced: Bool
            switch state {
            case .sizeLine:
                advanced = try readSizeLine(&input, contentBytesMax: contentBytesMax, limits: limits)
            case .data(let left):
                advanced = readData(&input, into: &content, left: left)
            case .dataEnd:
                advanced = try readDataEnd(&input)
            case .trailers:
                advanced = try readTrailerLine(&input, limits: limits)
            case .done:
                advanced = false
            }
            guard advanced else { return false }
        }
        return true
    }

    private static let malformed = Refusal(.badRequest, "The chunked coding of the content is malformed.")

    private mutating func readSizeLine(
        _ input: inout InputBuffer, contentBytesMax: Int, limits: Limits
    ) throws(Refusal) -> Bool {
        switch input.takeLine(bytesMax: Limits.chunkSizeDigitsMax + limits.chunkExtensionBytesMax) {
        case .incomplete:
            return false
        case .tooLong, .bareLineFeed:
            throw Self.malformed
        case .complete(let line):
            try readSize(input.bytes, line, contentBytesMax: contentBytesMax, limits: limits)
            return true
        }
    }

    private mutating func readSize(
        _ bytes: [UInt8], _ line: Range<Int>, contentBytesMax: Int, limits: Limits
    ) throws(Refusal) {
        var index = line.lowerBound
        var size = 0
        while index < line.upperBound, let digit = Grammar.hexValue(bytes[index]) {
            // Adding a digit shifts `size` by four bits. `size <= Int.max >> 4` ensures that the shift does not reach
            // the sign bit.
            guard index - line.lowerBound < Limits.chunkSizeDigitsMax, size <= Int.max >> 4 else {
                throw Self.malformed
            }
            size = size << 4 | Int(digit)
            index += 1
        }
        let extensions = index..<line.upperBound
        guard index > line.lowerBound, ChunkExtensions.isValid(bytes, extensions) else { throw Self.malformed }
        extensionBytes += extensions.count
        guard extensionBytes <= limits.chunkExtensionBytesMax else {
            throw Refusal(.badRequest, "The chunk extensions are too long.")
        }
        guard size <= contentBytesMax - contentBytes else { throw Refusal.contentTooLarge }
        contentBytes += size
        state = size == 0 ? .trailers : .data(left: size)
    }

    private mutating func readData(_ input: inout InputBuffer, into content: inout [UInt8], left: Int) -> Bool {
        let range = input.takeBytes(max: left)
        content.append(contentsOf: input.bytes[range])
        state = range.count == left ? .dataEnd : .data(left: left - range.count)
        return range.count == left
    }

    /// Reads the CRLF after chunk-data. If the first byte is wrong, throws without waiting for the second byte.
    private mutating func readDataEnd(_ input: inout InputBuffer) throws(Refusal) -> Bool {
        let next = input.available
        if let first = next.first, input.bytes[first] != Grammar.carriageReturn { throw Self.malformed }
        guard next.count >= 2 else { return false }
        guard input.bytes[next.lowerBound + 1] == Grammar.lineFeed else { throw Self.malformed }
        _ = input.takeBytes(max: 2)
        state = .sizeLine
        return true
    }

    private mutating func readTrailerLine(_ input: inout InputBuffer, limits: Limits) throws(Refusal) -> Bool {
        let left = limits.trailerSectionBytesMax - trailerSectionBytes
        switch input.takeLine(bytesMax: left - 2) {
        case .incomplete:
            return false
        case .tooLong:
            throw Refusal(.requestHeaderFieldsTooLarge, "The trailer section is too long.")
        case .bareLineFeed:
            throw Self.malformed
        case .complete(let line):
            trailerSectionBytes += line.count + 2
            if line.isEmpty {
                state = .done
            } else {
                try Trailers.append(input.bytes, line, to: &trailers, limits: limits)
            }
            return true
        }
    }
}

extension Refusal {
    static let contentTooLarge = Refusal(.contentTooLarge, "The content exceeds the limit of this resource.")
}
