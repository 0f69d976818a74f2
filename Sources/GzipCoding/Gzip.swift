// Decompresses request bodies with Content-Encoding: gzip (RFC 9110 section 8.4.1.3, RFC 1952). The size limit applies
// to the decompressed body and is checked during decompression. A gzip bomb therefore never fills a large buffer.

import CZlib

package enum GzipError: Error {
    /// The body is not gzip, is truncated, or has a wrong checksum.
    case malformed
    /// The body inflates to more than the limit.
    case tooLong
}

package enum Gzip {
    /// Returns the decompressed bytes. Throws `tooLong` if there are more than `bytesMax`. A body may consist of
    /// several gzip members in sequence (RFC 1952 section 2.2); other bytes after them are `malformed`.
    package static func inflate(_ compressed: [UInt8], bytesMax: Int) throws(GzipError) -> [UInt8] {
        var byteCount = 0
        return try inflate(compressed, bytesMax: bytesMax, byteCount: &byteCount)
    }

    /// Like `inflate(_:bytesMax:)`.
    ///
    /// - Parameter byteCount: set to the number of decompressed bytes, at most `bytesMax`, even if this function
    ///   throws.
    package static func inflate(
        _ compressed: [UInt8], bytesMax: Int, byteCount: inout Int
    ) throws(GzipError) -> [UInt8] {
        byteCount = 0
        var stream = z_stream()
        // 15 is the window size in bits. Adding 16 selects the gzip format instead of the zlib format.
        guard inflateInit2_(&stream, 15 + 16, ZLIB_VERSION, Int32(MemoryLayout<z_stream>.size)) == Z_OK else {
            throw .malformed
        }
        defer { inflateEnd(&stream) }

        // zlib only reads through this pointer, although the pointer's type is not const.
        var input = compressed
        let result = input.withUnsafeMutableBufferPointer { bytes -> Result<[UInt8], GzipError> in
            stream.next_in = bytes.baseAddress
            stream.avail_in = UInt32(clamping: bytes.count)
            return inflateAll(&stream, bytesMax: bytesMax, byteCount: &byteCount)
        }
        return try result.get()
    }

    private static func inflateAll(
        _ stream: inout z_stream, bytesMax: Int, byteCount: inout Int
    ) -> Result<[UInt8], GzipError> {
        var output: [UInt8] = []
        var piece = [UInt8](repeating: 0, count: 16 * 1024)
        while true {
            let (code, written) = piece.withUnsafeMutableBufferPointer { room in
                stream.next_out = room.baseAddress
                stream.avail_out = UInt32(room.count)
                let code = CZlib.inflate(&stream, Z_NO_FLUSH)
                return (code, room.count - Int(stream.avail_out))
            }
            byteCount = min(output.count + written, bytesMax)
            guard output.count + written <= bytesMax else { return .failure(.tooLong) }
            output.append(contentsOf: piece[..<written])
            switch code {
            case Z_STREAM_END where stream.avail_in == 0:
                return .success(output)
            case Z_STREAM_END:
                guard inflateReset(&stream) == Z_OK else { return .failure(.malformed) }
            case Z_OK where written > 0 || stream.avail_in > 0:
                continue
            default:
                return .failure(.malformed)
            }
        }
    }
}
