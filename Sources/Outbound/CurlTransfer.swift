// One HTTP exchange by libcurl, from the first option to the last byte. The exchange blocks its thread. The object is
// created, used and released on that thread. Only `isWanted` reads values that other threads may change.

import CCurl
import Foundation

/// The type is not Sendable, because only one thread at a time may use a libcurl handle.
final class CurlTransfer {
    /// Maximum bytes of all header lines together. The header lines of Apple's responses have about 1 KiB.
    static let headBytesMax = 65_536

    private let bytesMax: Int
    private let isWanted: () -> Bool
    private var headBytes = 0
    /// The response so far. It grows while data arrives. Its status is set at the end.
    private var answer = OutgoingResponse(status: 0, body: [])
    private var isTooLong = false

    private init(bytesMax: Int, isWanted: @escaping () -> Bool) {
        self.bytesMax = bytesMax
        self.isWanted = isWanted
    }

    /// Performs the exchange. Returns after the timeout at the latest. When `isWanted` starts to return false, returns
    /// within about a second.
    static func perform(
        _ request: OutgoingRequest, timeoutMilliseconds: Int, answerBytesMax: Int, isWanted: @escaping () -> Bool
    ) -> Result<OutgoingResponse, OutgoingFailure> {
        guard isReady, let handle = curl_easy_init() else { return .failure(.unreachable) }
        defer { curl_easy_cleanup(handle) }
        let transfer = CurlTransfer(bytesMax: answerBytesMax, isWanted: isWanted)
        return withExtendedLifetime(transfer) {
            transfer.run(handle, request, timeoutMilliseconds: timeoutMilliseconds)
        }
    }

    /// Whether libcurl was initialised without an error. It is initialised once per process, before the first handle,
    /// and stays initialised.
    private static let isReady = curl_global_init(Int(CURL_GLOBAL_ALL)) == CURLE_OK

    private func run(
        _ handle: UnsafeMutableRawPointer, _ request: OutgoingRequest, timeoutMilliseconds: Int
    ) -> Result<OutgoingResponse, OutgoingFailure> {
        // libcurl reads the list and the body until the exchange ends. The exchange ends within this function.
        var fields: UnsafeMutablePointer<curl_slist>?
        defer { curl_slist_free_all(fields) }
        // A name without a value makes libcurl omit that field. `Expect` is omitted so that libcurl sends the body at
        // once, without waiting for 100 Continue.
        for (name, value) in [("User-Agent", "dwell"), ("Connection", "close"), ("Expect", "")] + request.fields {
            guard let longer = curl_slist_append(fields, value.isEmpty ? "\(name):" : "\(name): \(value)") else {
                return .failure(.unreachable)
            }
            fields = longer
        }
        let code = request.body.withUnsafeBytes { body in
            guard
                setBounds(handle, timeoutMilliseconds: timeoutMilliseconds), setReceivers(handle),
                setAuthority(handle, request.authorityFile),
                curl_shim_set_string(handle, CURLOPT_URL, request.url.absoluteString) == CURLE_OK,
                curl_shim_set_list(handle, CURLOPT_HTTPHEADER, fields) == CURLE_OK,
                request.method == .get || setBody(handle, body),
                // With a body, libcurl sends POST unless another method is set.
                request.method != .put
                    || curl_shim_set_string(handle, CURLOPT_CUSTOMREQUEST, request.method.rawValue) == CURLE_OK
            else { return CURLE_FAILED_INIT }
            return curl_easy_perform(handle)
        }
        var status = 0
        guard code == CURLE_OK, curl_shim_get_status(handle, &status) == CURLE_OK else {
            return .failure(failure(code))
        }
        guard ![301, 302, 303, 307, 308].contains(status) else { return .failure(.redirected) }
        answer.status = status
        return .success(answer)
    }

    // MARK: Options

    /// Sets the limits and the TLS options. By default, libcurl does not follow redirects, does not store cookies or
    /// credentials, and does not decompress content. The TLS options are set even where they equal the defaults,
    /// because security depends on them.
    private func setBounds(_ handle: UnsafeMutableRawPointer, timeoutMilliseconds: Int) -> Bool {
        let numbers: [(CURLoption, Int)] = [
            (CURLOPT_TIMEOUT_MS, timeoutMilliseconds), (CURLOPT_CONNECTTIMEOUT_MS, timeoutMilliseconds),
            (CURLOPT_SSL_VERIFYPEER, 1), (CURLOPT_SSL_VERIFYHOST, 2), (CURLOPT_FOLLOWLOCATION, 0),
            (CURLOPT_HTTP_VERSION, Int(CURL_HTTP_VERSION_1_1)), (CURLOPT_NOPROGRESS, 0),
            // libcurl must not use signals in a process with several threads.
            (CURLOPT_NOSIGNAL, 1),
        ]
        return numbers.allSatisfy { curl_shim_set_long(handle, $0, $1) == CURLE_OK }
            && curl_shim_set_string(handle, CURLOPT_PROTOCOLS_STR, "http,https") == CURLE_OK
            && curl_shim_set_offset(handle, CURLOPT_MAXFILESIZE_LARGE, curl_off_t(bytesMax)) == CURLE_OK
    }

    /// Adds the file's certificates to the system's, which libcurl keeps reading from its directory.
    private func setAuthority(_ handle: UnsafeMutableRawPointer, _ path: String?) -> Bool {
        path.map { curl_shim_set_string(handle, CURLOPT_CAINFO, $0) == CURLE_OK } ?? true
    }

    private func setBody(_ handle: UnsafeMutableRawPointer, _ body: UnsafeRawBufferPointer) -> Bool {
        // An empty body is passed as an empty string. Without a pointer to a body, libcurl would call a callback to get
        // the body.
        curl_shim_set_long(handle, CURLOPT_POST, 1) == CURLE_OK
            && curl_shim_set_offset(handle, CURLOPT_POSTFIELDSIZE_LARGE, curl_off_t(body.count)) == CURLE_OK
            && (body.baseAddress.map {
                curl_shim_set_pointer(handle, CURLOPT_POSTFIELDS, UnsafeMutableRawPointer(mutating: $0))
            } ?? curl_shim_set_string(handle, CURLOPT_COPYPOSTFIELDS, "")) == CURLE_OK
    }

    /// Registers the callbacks. Each callback gets an unretained reference to this object. `perform` keeps the object
    /// alive while libcurl may call the callbacks.
    private func setReceivers(_ handle: UnsafeMutableRawPointer) -> Bool {
        let this = Unmanaged.passUnretained(self).toOpaque()
        return curl_shim_set_pointer(handle, CURLOPT_WRITEDATA, this) == CURLE_OK
            && curl_shim_set_pointer(handle, CURLOPT_HEADERDATA, this) == CURLE_OK
            && curl_shim_set_pointer(handle, CURLOPT_XFERINFODATA, this) == CURLE_OK
            && curl_shim_set_receiver(handle, CURLOPT_WRITEFUNCTION) { bytes, size, count, this in
                CurlTransfer.of(this)?.receive(UnsafeRawBufferPointer(start: bytes, count: size * count)) ?? 0
            } == CURLE_OK
            && curl_shim_set_receiver(handle, CURLOPT_HEADERFUNCTION) { bytes, size, count, this in
                CurlTransfer.of(this)?.receiveLine(UnsafeRawBufferPointer(start: bytes, count: size * count)) ?? 0
            } == CURLE_OK
            && curl_shim_set_progress(handle) { this, _, _, _, _ in
                CurlTransfer.of(this)?.isWanted() == true ? 0 : 1
            } == CURLE_OK
    }

    private static func of(_ this: UnsafeMutableRawPointer?) -> CurlTransfer? {
        this.map { Unmanaged<CurlTransfer>.fromOpaque($0).takeUnretainedValue() }
    }

    // MARK: Receiving

    /// Returns the number of bytes consumed. Any number other than `bytes.count` makes libcurl end the exchange.
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
        let text = String(decoding: line, as: UTF8.self)
        // Interim responses have header lines too, so each status line begins a new response.
        if text.hasPrefix("HTTP/") { answer = OutgoingResponse(status: 0, body: []) }
        let parts = text.split(separator: ":", maxSplits: 1)
        guard parts.count == 2 else { return line.count }
        let value = parts[1].trimmingCharacters(in: .whitespacesAndNewlines)
        switch parts[0].lowercased() {
        case "cache-control": answer.cacheControl = value
        case "retry-after": answer.retryAfterSeconds = Int(value)
        case "content-type": answer.contentType = value
        default: break
        }
        return line.count
    }

    private func failure(_ code: CURLcode) -> OutgoingFailure {
        if isTooLong { return .answerTooLong }
        return switch code {
        case CURLE_FILESIZE_EXCEEDED: .answerTooLong
        case CURLE_OPERATION_TIMEDOUT: .timedOut
        case CURLE_PEER_FAILED_VERIFICATION, CURLE_SSL_CACERT_BADFILE, CURLE_SSL_ISSUER_ERROR: .notTrusted
        case CURLE_ABORTED_BY_CALLBACK: .cancelled
        default: .unreachable
        }
    }
}
