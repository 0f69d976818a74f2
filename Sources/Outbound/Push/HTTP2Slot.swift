// One stream of an HTTP2Loop: a libcurl handle that is used for one request after another.

import CCurl

/// The type is not Sendable, because only the loop's thread may use a slot. libcurl has a pointer to the slot. The loop
/// therefore keeps the slot alive as long as the slot's handle exists.
final class HTTP2Slot {
    /// The maximum number of times that a request is sent again. libcurl has the same limit.
    private static let repetitionsMax = 5

    let handle: UnsafeMutableRawPointer
    /// Whether the handle is added to the loop's multi handle.
    var isActive = false
    private(set) var deadline = ContinuousClock.now
    private let receiver: CurlReceiver
    private let authorityFile: String?
    private let idleConnectionSeconds: Int
    private var call: OutgoingCall?
    /// How often the request was sent again because its stream was refused.
    private var repetitionCount = 0
    /// The request fields. libcurl reads this list until the transfer ends.
    private var fields: UnsafeMutablePointer<curl_slist>?

    /// Returns nil if memory is exhausted.
    init?(bytesMax: Int, authorityFile: String?, idleConnectionSeconds: Int) {
        guard let handle = curl_easy_init() else { return nil }
        self.handle = handle
        self.authorityFile = authorityFile
        self.idleConnectionSeconds = idleConnectionSeconds
        receiver = CurlReceiver(bytesMax: bytesMax)
    }

    /// Sets the options that are the same for every request. Returns false if libcurl does not accept one of them, for
    /// example because it was built without HTTP/2.
    private func setOptions() -> Bool {
        let numbers: [(CURLoption, Int)] = [
            (CURLOPT_POST, 1), (CURLOPT_MAXAGE_CONN, idleConnectionSeconds),
            // If a connection is being made, a new request waits for it instead of opening another one.
            (CURLOPT_PIPEWAIT, 1),
            // The system notices within two and a half minutes that the peer is gone, even if no request is in
            // progress.
            (CURLOPT_TCP_KEEPALIVE, 1), (CURLOPT_TCP_KEEPIDLE, 60), (CURLOPT_TCP_KEEPINTVL, 10),
        ]
        return CurlOptions.set(
            handle, httpVersion: Int(CURL_HTTP_VERSION_2TLS), protocols: "https", bytesMax: receiver.bytesMax)
            && numbers.allSatisfy { curl_shim_set_long(handle, $0, $1) == CURLE_OK }
            && curl_shim_set_quick_exit(handle) == CURLE_OK && CurlOptions.setAuthority(handle, authorityFile)
            && receiver.register(on: handle)
            && curl_shim_set_pointer(handle, CURLOPT_PRIVATE, Unmanaged.passUnretained(self).toOpaque()) == CURLE_OK
    }

    /// Releases the handle. The slot must not be used afterwards.
    func release() {
        freeFields()
        curl_easy_cleanup(handle)
    }

    /// The private pointer is valid, because the loop keeps the slot alive.
    static func of(_ handle: UnsafeMutableRawPointer?) -> HTTP2Slot? {
        var this: UnsafeMutableRawPointer?
        guard let handle, curl_shim_get_private(handle, &this) == CURLE_OK else { return nil }
        return this.map { Unmanaged<HTTP2Slot>.fromOpaque($0).takeUnretainedValue() }
    }

    /// Sets the request. Returns false if libcurl does not accept it.
    func begin(_ submission: HTTP2Channel.Submission, origin: String) -> Bool {
        let request = submission.request
        freeFields()
        // libcurl counts how often a handle sends requests again, and fails the sixth repetition (CONN_MAX_RETRIES in
        // transfer.c, 7.88). The count covers all requests of the handle, so the reset sets it to 0 before each
        // request.
        curl_easy_reset(handle)
        fields = CurlOptions.list(request.fields)
        receiver.begin()
        repetitionCount = 0
        (call, deadline) = (submission.call, submission.deadline)
        return setOptions() && fields != nil
            && curl_shim_set_string(handle, CURLOPT_URL, origin + request.path) == CURLE_OK
            && curl_shim_set_list(handle, CURLOPT_HTTPHEADER, fields) == CURLE_OK
            // The size must be set before the body, because libcurl copies that many bytes of the body.
            && curl_shim_set_offset(handle, CURLOPT_POSTFIELDSIZE_LARGE, curl_off_t(request.body.count)) == CURLE_OK
            && request.body.withUnsafeBytes { body in
                // For libcurl, a null pointer means that no body is set, so pass an empty body as an empty string.
                guard let start = body.baseAddress, body.count > 0 else {
                    return curl_shim_set_string(handle, CURLOPT_COPYPOSTFIELDS, "") == CURLE_OK
                }
                return curl_shim_set_pointer(
                    handle, CURLOPT_COPYPOSTFIELDS, UnsafeMutableRawPointer(mutating: start)) == CURLE_OK
            }
    }

    /// Returns whether the transfer that ended with `code` is to be repeated.
    ///
    /// A service that closes a connection refuses the streams that it has not processed (GOAWAY, REFUSED_STREAM). Their
    /// requests may be sent again (RFC 9113, section 8.7), and libcurl usually does this itself.
    ///
    /// If the refused stream is the only one left on the connection, libcurl 7.88 may fail with CURLE_HTTP2
    /// (h2_process_pending_input in http2.c). The request must then be repeated here.
    func isRepeated(after code: CURLcode) -> Bool {
        code == CURLE_HTTP2 && !receiver.hasBegun && repetitionCount < Self.repetitionsMax && !hasEnded
    }

    /// Must be called before the handle is added to the multi handle again.
    func beginRepetition() {
        repetitionCount += 1
        receiver.begin()
    }

    var hasEnded: Bool { call?.hasEnded ?? true }

    /// Returns the result of the transfer that ended with `code`.
    func result(_ code: CURLcode) -> OutgoingCall.Result {
        let result = receiver.result(code, of: handle)
        var version = 0
        // Without HTTP/2 each request would need a connection of its own.
        if case .success = result, curl_shim_get_long(handle, CURLINFO_HTTP_VERSION, &version) == CURLE_OK,
            version != Int(CURL_HTTP_VERSION_2_0)
        {
            return .failure(.notHTTP2)
        }
        return result
    }

    /// The number of connections that the transfer made; 0 if it used an open connection.
    var connectionsMade: Int {
        var count = 0
        return curl_shim_get_long(handle, CURLINFO_NUM_CONNECTS, &count) == CURLE_OK ? count : 0
    }

    func end(with result: OutgoingCall.Result) {
        call?.end(with: result)
        call = nil
    }

    private func freeFields() {
        // Remove the list from the handle first, because the handle must not refer to a freed list.
        curl_shim_set_list(handle, CURLOPT_HTTPHEADER, nil)
        curl_slist_free_all(fields)
        fields = nil
    }
}
