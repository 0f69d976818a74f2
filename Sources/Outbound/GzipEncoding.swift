// Content-Encoding: gzip (RFC 1952) for the bodies of outgoing requests, by zlib.

import CZlib

enum GzipEncoding {
    /// Returns the compressed bytes, or nil when out of memory.
    static func deflate(_ plain: [UInt8]) -> [UInt8]? {
        var stream = z_stream()
        // 15 is the window size in bits. Adding 16 makes zlib write the header and trailer of gzip instead of its own.
        let code = deflateInit2_(
            &stream, Z_DEFAULT_COMPRESSION, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY, ZLIB_VERSION,
            Int32(MemoryLayout<z_stream>.size))
        guard code == Z_OK else { return nil }
        defer { deflateEnd(&stream) }
        // zlib declares `next_in` as mutable, but only reads the bytes. Therefore `input` is a mutable copy.
        var input = plain
        var output = [UInt8](repeating: 0, count: Int(deflateBound(&stream, UInt(plain.count))))
        let written = input.withUnsafeMutableBufferPointer { bytes in
            output.withUnsafeMutableBufferPointer { room -> Int? in
                stream.next_in = bytes.baseAddress
                stream.avail_in = UInt32(clamping: bytes.count)
                stream.next_out = room.baseAddress
                stream.avail_out = UInt32(clamping: room.count)
                guard CZlib.deflate(&stream, Z_FINISH) == Z_STREAM_END else { return nil }
                return room.count - Int(stream.avail_out)
            }
        }
        return written.map { Array(output[..<$0]) }
    }
}
