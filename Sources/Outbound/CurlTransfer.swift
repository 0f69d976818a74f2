// One HTTP exchange by libcurl. It blocks the calling thread.

import CCurl
import Foundation

final class CurlTransfer {
    private let receiver: CurlReceiver
    private let bytesMax: Int
    private let isWanted: () -> Bool

    private init(bytesMax: Int, isWanted: @escaping () -> Bool) {
        receiver = CurlReceiver(bytesMax: bytesMax)
        self.bytesMax = bytesMax
        self.isWanted = isWanted
    }

    /// Performs the exchange within the timeout. Polls `isWanted` meanwhile, and returns within about a second after it
    /// has returned false.
    static func perform(
        _ request: OutgoingRequest, timeoutMilliseconds: Int, answerBytesMax: Int, isWanted: @escaping () -> Bool
    ) -> Result<OutgoingResponse, OutgoingFailure> {
        guard CurlOptions.isReady, let handle = curl_easy_init() else { return .failure(.unreachable) }
        defer { curl_easy_cleanup(handle) }
        let transfer = CurlTransfer(bytesMax: answerBytesMax, isWanted: isWanted)
        return withExtendedLifetime(transfer) {
            transfer.run(handle, request, timeoutMilliseconds: timeoutMilliseconds)
        }
    }

    private func run(
        _ handle: UnsafeMutableRawPointer, _ request: OutgoingRequest, timeoutMilliseconds: Int
    ) -> Result<OutgoingResponse, OutgoingFailure> {
        // libcurl reads the list and the body only during the exchange. Both stay valid until this function returns.
        guard let fields = CurlOptions.list([("Connection", "close")] + request.fields) else {
            return .failure(.unreachable)
        }
        defer { curl_slist_free_all(fields) }
        let code = request.body.withUnsafeBytes { body in
            guard
                setBounds(handle, timeoutMilliseconds: timeoutMilliseconds), setCallbacks(handle),
                CurlOptions.setAuthority(handle, request.authorityFile),
                curl_shim_set_string(handle, CURLOPT_URL, request.url.absoluteString) == CURLE_OK,
                curl_shim_set_list(handle, CURLOPT_HTTPHEADER, fields) == CURLE_OK,
                request.method == .get || setBody(handle, body),
                // With a body, libcurl sends POST by default, so PUT must be set explicitly.
                request.method != .put
                    || curl_shim_set_string(handle, CURLOPT_CUSTOMREQUEST, request.method.rawValue) == CURLE_OK
            else { return CURLE_FAILED_INIT }
            return curl_easy_perform(handle)
        }
        return receiver.result(code, of: handle)
    }

    // MARK: Options

    private func setBounds(_ handle: UnsafeMutableRawPointer, timeoutMilliseconds: Int) -> Bool {
        let numbers: [(CURLoption, Int)] = [
            (CURLOPT_TIMEOUT_MS, timeoutMilliseconds), (CURLOPT_CONNECTTIMEOUT_MS, timeoutMilliseconds),
            (CURLOPT_NOPROGRESS, 0),
        ]
        // Without the option for a quick exit, libcurl waits for the end of a name lookup, even after the timeout. If
        // the name servers do not answer, the lookup takes half a minute or longer.
        return numbers.allSatisfy { curl_shim_set_long(handle, $0, $1) == CURLE_OK }
            && curl_shim_set_quick_exit(handle) == CURLE_OK
            && CurlOptions.set(
                handle, httpVersion: Int(CURL_HTTP_VERSION_1_1), protocols: "http,https", bytesMax: bytesMax)
    }

    private func setBody(_ handle: UnsafeMutableRawPointer, _ body: UnsafeRawBufferPointer) -> Bool {
        // Pass an empty body as an empty string. If no body were set, libcurl would call a read callback to get one.
        curl_shim_set_long(handle, CURLOPT_POST, 1) == CURLE_OK
            && curl_shim_set_offset(handle, CURLOPT_POSTFIELDSIZE_LARGE, curl_off_t(body.count)) == CURLE_OK
            && (body.baseAddress.map {
                curl_shim_set_pointer(handle, CURLOPT_POSTFIELDS, UnsafeMutableRawPointer(mutating: $0))
            } ?? curl_shim_set_string(handle, CURLOPT_COPYPOSTFIELDS, "")) == CURLE_OK
    }

    /// libcurl gets an unretained reference to this object. `perform` keeps the object alive until the exchange ends.
    private func setCallbacks(_ handle: UnsafeMutableRawPointer) -> Bool {
        let this = Unmanaged.passUnretained(self).toOpaque()
        return receiver.register(on: handle)
            && curl_shim_set_pointer(handle, CURLOPT_XFERINFODATA, this) == CURLE_OK
            && curl_shim_set_progress(handle) { this, _, _, _, _ in
                CurlTransfer.of(this)?.isWanted() == true ? 0 : 1
            } == CURLE_OK
    }

    private static func of(_ this: UnsafeMutableRawPointer?) -> CurlTransfer? {
        this.map { Unmanaged<CurlTransfer>.fromOpaque($0).takeUnretainedValue() }
    }
}
