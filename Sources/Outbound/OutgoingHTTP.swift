// Makes the server's HTTP calls to other services, by libcurl with all limits set. Only push notifications use another
// client (HTTP2Channel). Errors never contain a URL, a field or a body, because these may contain secrets.

package import Foundation
import Synchronization

package struct OutgoingRequest: Sendable {
    package enum Method: String, Sendable {
        case get = "GET"
        case post = "POST"
        case put = "PUT"
    }

    package var method: Method
    package var url: URL
    package var fields: [(name: String, value: String)]
    package var body: [UInt8]
    /// The path of a PEM file with certificates that are trusted in addition to the system's; nil if only the system's
    /// are trusted.
    package var authorityFile: String?

    package init(
        _ method: Method, _ url: URL, fields: [(name: String, value: String)] = [], body: [UInt8] = [],
        authorityFile: String? = nil
    ) {
        self.method = method
        self.url = url
        self.fields = fields
        self.body = body
        self.authorityFile = authorityFile
    }
}

package struct OutgoingResponse: Hashable, Sendable {
    package var status: Int
    package var cacheControl: String?
    /// The value of `Retry-After` in seconds. Nil when the field is absent, or is a date.
    package var retryAfterSeconds: Int?
    package var contentType: String?
    package var body: [UInt8]
}

/// The reason why a call has no response. The raw values are for logs.
package enum OutgoingFailure: String, Error, Hashable, Sendable {
    case timedOut = "timed_out"
    /// No connection could be made, the connection broke, or libcurl failed for a reason that no other case describes.
    case unreachable
    /// The certificate that the called server presented is not trusted, or is not for its host name.
    case notTrusted = "not_trusted"
    case answerTooLong = "answer_too_long"
    /// The response is a redirect. Redirects are never followed, because only the configured address may receive the
    /// request.
    case redirected
    /// The caller requires HTTP/2, and the called server does not support it.
    case notHTTP2 = "not_http2"
    /// Too many calls are in progress or waiting, or the `OutgoingHTTP` was closed before the call.
    case busy
    /// The caller cancelled, or the server is shutting down.
    case cancelled
}

/// A client for outgoing HTTP calls. Every thread may use it.
package final class OutgoingHTTP: Sendable {
    /// The maximum number of calls in progress in one `OutgoingHTTP` object.
    ///
    /// The code webhook has its own object, and so have the App Store (with the OCSP responders) and Google's access
    /// tokens. Signing in with Apple and analytics share one object. A slow service blocks only calls that use the same
    /// object.
    static let callsMax = 64

    private struct State {
        var calls: [ObjectIdentifier: OutgoingCall] = [:]
        var isClosed = false
    }

    private let callsMax: Int
    private let state = Mutex(State())

    package convenience init() {
        self.init(callsMax: Self.callsMax)
    }

    init(callsMax: Int) {
        self.callsMax = callsMax
    }

    /// - Parameters:
    ///   - timeoutMilliseconds: the time limit of the whole call: name resolution, connecting, TLS, sending, and
    ///     receiving up to the last byte.
    ///   - answerBytesMax: the maximum bytes of the response's content, which is not decompressed. A longer response
    ///     ends the call.
    package func send(
        _ request: OutgoingRequest, timeoutMilliseconds: Int, answerBytesMax: Int
    ) async throws(OutgoingFailure) -> OutgoingResponse {
        let call = OutgoingCall()
        try begin(call)
        // Each call has its own thread, because libcurl blocks the thread. A call counts against `callsMax` until its
        // thread ends, so `callsMax` also limits the threads. It does not limit libcurl's own threads for name lookups,
        // which may outlive their calls.
        let thread = Thread { [self] in
            call.end(
                with: CurlTransfer.perform(
                    request, timeoutMilliseconds: timeoutMilliseconds, answerBytesMax: answerBytesMax,
                    isWanted: { !call.hasEnded }))
            state.withLock { $0.calls[ObjectIdentifier(call)] = nil }
        }
        thread.stackSize = 1 << 20
        return try await withTaskCancellationHandler {
            await withCheckedContinuation { continuation in
                call.begin(continuation)
                thread.start()
            }
        } onCancel: {
            call.end(with: .failure(.cancelled))
        }.get()
    }

    /// Rejects further calls, and ends the calls in progress as `cancelled`.
    package func close() {
        let calls = state.withLock { state in
            state.isClosed = true
            return Array(state.calls.values)
        }
        for call in calls { call.end(with: .failure(.cancelled)) }
    }

    private func begin(_ call: OutgoingCall) throws(OutgoingFailure) {
        let isAccepted = state.withLock { state in
            guard !state.isClosed, state.calls.count < callsMax else { return false }
            state.calls[ObjectIdentifier(call)] = call
            return true
        }
        guard isAccepted else { throw .busy }
    }
}
