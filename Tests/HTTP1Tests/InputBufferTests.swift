// Tests that the input buffer releases the memory of taken bytes, even if the buffer never becomes empty.

import Testing

@testable import HTTP1

struct InputBufferTests {
    private static let line = Array("GET / HTTP/1.1\r\n".utf8)

    private func append(_ bytes: [UInt8], to input: inout InputBuffer) {
        bytes.withUnsafeBytes { input.append($0) }
    }

    @Test func `the buffer stays small over many requests, even if each read ends in the middle of one`() {
        let half = Self.line.count / 2
        var input = InputBuffer()
        append(Array(Self.line.prefix(half)), to: &input)
        for _ in 0..<2000 {
            append(Array(Self.line.dropFirst(half) + Self.line.prefix(half)), to: &input)
            guard case .complete(let range) = input.takeLine(bytesMax: 100) else {
                Issue.record("the line is not complete")
                return
            }
            #expect(Array(input.bytes[range]) == Self.line.dropLast(2))
            #expect(input.available.count == half)
            #expect(input.bytes.count <= 3 * Self.line.count)
        }
        #expect(input.bytes.capacity <= 64 * Self.line.count)
    }

    @Test func `a large buffer is freed once it is empty`() {
        var input = InputBuffer()
        append([UInt8](repeating: 0x78, count: Limits.idleBufferBytesMax + 1), to: &input)
        input.releaseIfIdle()
        #expect(input.available.count == Limits.idleBufferBytesMax + 1)
        _ = input.takeBytes(max: .max)
        input.releaseIfIdle()
        #expect(input.bytes.capacity == 0)
    }
}
