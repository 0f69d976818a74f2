// Decompresses arbitrary bytes as a gzip body. The server's decoder (zlib) and GzipReference must return the same
// result.
//
// Also compresses the bytes into a gzip member. The server's decoder must return the bytes once for one member, and
// twice for two members in a row.
//
// The server's decoder must refuse a truncated member, an extra byte after a member, and content that is longer than
// the limit.
//
// Input: two bytes for the limit and the level of compression, then the body.

import CZlib
import GzipCoding

func fuzzGzipBody(_ input: [UInt8]) throws(Finding) {
    guard input.count >= 2 else { return }
    let body = Array(input.dropFirst(2))
    // The limit is between 0 and 64 KiB - 1, so that the content of even a short body can exceed it.
    let bytesMax = 1 << Int(input[0] % 17) - 1
    let reference = GzipReference(body, bytesMax: bytesMax)
    switch (inflated(body, bytesMax), reference.end) {
    case (.success(let output), .whole):
        try require(output == reference.output, "Inflated to other content.")
    case (.failure(.malformed), .malformed), (.failure(.tooLong), .tooLong): break
    case (let outcome, let end): throw Finding("\(outcome) where the reference is \(end).")
    }
    // Compress only for some inputs, because compressing takes ten times as long as everything else.
    if input[1] < 20 { try roundTrip(body, level: Int32(input[1] % 10)) }
}

private func inflated(_ body: [UInt8], _ bytesMax: Int) -> Result<[UInt8], GzipError> {
    do throws(GzipError) {
        return .success(try Gzip.inflate(body, bytesMax: bytesMax))
    } catch {
        return .failure(error)
    }
}

private func roundTrip(_ content: [UInt8], level: Int32) throws(Finding) {
    guard let member = compressed(content, level: level) else { throw Finding("zlib does not compress.") }
    func expect(_ body: [UInt8], _ bytesMax: Int, _ expected: Result<[UInt8], GzipError>) throws(Finding) {
        let outcome = inflated(body, bytesMax)
        try require(outcome == expected, "\(outcome), not \(expected), of what zlib compressed.")
    }
    try expect(member, content.count, .success(content))
    try expect(member + member, content.count * 2, .success(content + content))
    try expect(Array(member.dropLast()), content.count, .failure(.malformed))
    try expect(member + [0], content.count, .failure(.malformed))
    if !content.isEmpty { try expect(member, content.count - 1, .failure(.tooLong)) }
}

/// Returns the content as one gzip member.
private func compressed(_ content: [UInt8], level: Int32) -> [UInt8]? {
    var stream = z_stream()
    guard
        deflateInit2_(
            &stream, level, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY, ZLIB_VERSION,
            Int32(MemoryLayout<z_stream>.size)) == Z_OK
    else { return nil }
    defer { deflateEnd(&stream) }
    var input = content
    var output = [UInt8](repeating: 0, count: Int(deflateBound(&stream, uLong(content.count))) + 32)
    let written = input.withUnsafeMutableBufferPointer { input in
        output.withUnsafeMutableBufferPointer { output in
            stream.next_in = input.baseAddress
            stream.avail_in = UInt32(input.count)
            stream.next_out = output.baseAddress
            stream.avail_out = UInt32(output.count)
            return deflate(&stream, Z_FINISH) == Z_STREAM_END ? output.count - Int(stream.avail_out) : nil
        }
    }
    return written.map { Array(output[..<$0]) }
}
