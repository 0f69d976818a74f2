// Receives the responses of one libcurl handle through libcurl's callbacks, and limits their size.

import CCurl
import Foundation

/// The type is not Sendable, because only one thread at a time may use a libcurl handle.
final class CurlReceiver {
    /// Maximum bytes of all header lines together. The header lines of Apple's responses have about 1 KiB.
    static let headBytesMax = 65_536

    /// Maximum bytes of the response's content.
    let bytesMax: Int
    private var headBytes = 0
    /// The part of the response that has arrived. Its status is always 0, because `result` reads the status from the
    /// handle at the end.
    private(set) var answer = OutgoingResponse(status: 0, body: [])
    private(set) var isTooLong = false

    init(bytesMax: Int) {
        self.bytesMax = bytesMax
    }

    /// Forgets the previous response.
    func begin() {
        answer = OutgoingResponse(status: 0, body: [])
        (headBytes, isTooLong) = (0, false)
    }

    /// Whether a part of the response has arrived.
    var hasBegun: Bool { headBytes > 0 }

    /// libcurl gets an unretained reference to this object. The owner must keep this object alive while libcurl may
    /// call the callbacks.
    func register(on handle: UnsafeMutableRawPointer) -> Bool {
        let this = Unmanaged.passUnretained(self).toOpaque()
        return curl_shim_set_pointer(handle, CURLOPT_WRITEDATA, this) == CURLE_OK
            && curl_shim_set_pointer(handle, CURLOPT_HEADERDATA, this) == CURLE_OK
            && curl_shim_set_receiver(handle, CURLOPT_WRITEFUNCTION) { bytes, size, count, this in
                CurlReceiver.of(this)?.receive(UnsafeRawBufferPointer(start: bytes, count: size * count)) ?? 0
            } == CURLE_OK
            && curl_shim_set_receiver(handle, CURLOPT_HEADERFUNCTION) { bytes, size, count, this in
                CurlReceiver.of(this)?.receiveLine(UnsafeRawBufferPointer(start: bytes, count: size * count)) ?? 0
            } == CURLE_OK
    }

    private static func of(_ this: UnsafeMutableRawPointer?) -> CurlReceiver? {
        this.map { Unmanaged<CurlReceiver>.fromOpaque($0).takeUnretainedValue() }
    }

    /// Returns the number of bytes consumed. If the number is not `bytes.count`, libcurl ends the exchange.
    private func receive(_ bytes: UnsafeRawBufferPointer) -> Int {
        guard answer.body.count + bytes.count <= bytesMax else {
            isTooLong = true
            return 0
        }
        answer.body += bytes
        return bytes.count
    }

    private func receiveLine(_ line: UnsafeRawBufferPointer) -> Int {
        headBytes += line.count
        guard headBytes <= Self.headBytesMax else {
            isTooLong = true
            return 0
        }
        // Interim responses (1xx) also have a status line, and come before the final response. Each status line
        // therefore discards the earlier lines.
        if line.starts(with: "HTTP/".utf8) { answer = OutgoingResponse(status: 0, body: []) }
        // The three field names that matter have 11 to 13 bytes. Other lines are skipped before Strings are created.
        guard let colon = line.firstIndex(of: UInt8(ascii: ":")), (11...13).contains(colon) else { return line.count }
        let value = String(decoding: line[(colon + 1)...], as: UTF8.self)
            .trimmingCharacters(in: .whitespacesAndNewlines)
        switch String(decoding: line[..<colon], as: UTF8.self).lowercased() {
        case "cache-control": answer.cacheControl = value
        case "retry-after": answer.retryAfterSeconds = Int(value)
        case "content-type": answer.contentType = value
        default: break
        }
        return line.count
    }

    /// Returns the result of the transfer that ended with `code`.
    func result(_ code: CURLcode, of handle: UnsafeMutableRawPointer) -> Result<OutgoingResponse, OutgoingFailure> {
        var status = 0
        if isTooLong { return .failure(.answerTooLong) }
        guard code == CURLE_OK, curl_shim_get_status(handle, &status) == CURLE_OK else {
            return .failure(OutgoingFailure(code))
        }
        guard ![301, 302, 303, 307, 308].contains(status) else { return .failure(.redirected) }
        var answer = answer
        answer.status = status
        return .success(answer)
    }
}
