// The options, request fields and error codes that CurlTransfer (libcurl's easy interface) and HTTP2Slot (the multi
// interface) share.

import CCurl

enum CurlOptions {
    /// Whether libcurl's global initialisation succeeded. It runs once per process, before the first handle.
    static let isReady = curl_global_init(Int(CURL_GLOBAL_ALL)) == CURLE_OK

    /// Sets the limits and the TLS options, and turns off the following of redirects. These options for TLS and
    /// redirects are libcurl's defaults. They are set explicitly, because security depends on them.
    ///
    /// The server also relies on three defaults that are not set here: libcurl stores no cookies, stores no
    /// credentials, and does not decompress content.
    static func set(_ handle: UnsafeMutableRawPointer, httpVersion: Int, protocols: String, bytesMax: Int) -> Bool {
        let numbers: [(CURLoption, Int)] = [
            (CURLOPT_SSL_VERIFYPEER, 1), (CURLOPT_SSL_VERIFYHOST, 2), (CURLOPT_FOLLOWLOCATION, 0),
            (CURLOPT_HTTP_VERSION, httpVersion),
            // libcurl must not use signals in a process with several threads.
            (CURLOPT_NOSIGNAL, 1),
        ]
        return numbers.allSatisfy { curl_shim_set_long(handle, $0, $1) == CURLE_OK }
            && curl_shim_set_string(handle, CURLOPT_PROTOCOLS_STR, protocols) == CURLE_OK
            && curl_shim_set_offset(handle, CURLOPT_MAXFILESIZE_LARGE, curl_off_t(bytesMax)) == CURLE_OK
    }

    /// Makes libcurl trust the certificates in the file at `path` in addition to the system's certificates; nil changes
    /// nothing. libcurl reads this file instead of the system's certificate file. It still trusts the system's
    /// certificates, because it also reads the system's certificate directory.
    static func setAuthority(_ handle: UnsafeMutableRawPointer, _ path: String?) -> Bool {
        path.map { curl_shim_set_string(handle, CURLOPT_CAINFO, $0) == CURLE_OK } ?? true
    }

    /// Returns a list for CURLOPT_HTTPHEADER; nil if memory is exhausted. The caller must free the list after the
    /// transfer.
    ///
    /// libcurl omits a field whose value is empty. `Expect` is empty so that libcurl sends the body at once, without
    /// waiting for 100 Continue.
    static func list(_ fields: [(name: String, value: String)]) -> UnsafeMutablePointer<curl_slist>? {
        var list: UnsafeMutablePointer<curl_slist>?
        for (name, value) in [("User-Agent", "dwell"), ("Expect", "")] + fields {
            guard let longer = curl_slist_append(list, value.isEmpty ? "\(name):" : "\(name): \(value)") else {
                curl_slist_free_all(list)
                return nil
            }
            list = longer
        }
        return list
    }
}

extension OutgoingFailure {
    init(_ code: CURLcode) {
        self =
            switch code {
            case CURLE_FILESIZE_EXCEEDED: .answerTooLong
            case CURLE_OPERATION_TIMEDOUT: .timedOut
            case CURLE_PEER_FAILED_VERIFICATION, CURLE_SSL_CACERT_BADFILE, CURLE_SSL_ISSUER_ERROR: .notTrusted
            case CURLE_ABORTED_BY_CALLBACK: .cancelled
            default: .unreachable
            }
    }
}
