// Makes all HTTP calls of the server, by libcurl with all limits set. Nothing here depends on a call's receiver or
// purpose. Errors never contain a URL, a field or a body, because all three carry secrets.

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

    package init(
        _ method: Method, _ url: URL, fields: [(name: String, value: String)] = [], body: [UInt8] = []
    ) {
        self.method = method
        self.url = url
        self.fields = fields
        self.body = body
    }
}

package struct OutgoingResponse: Hashable, Sendable {
    package var status: Int
    package var cacheControl: String?
    /// `Retry-After` in seconds; nil when it is absent, or a date.
    package var retryAfterSeconds: Int?
    package var body: [UInt8]
}

/// The reason why a call has no response. The raw values are for logs.
package enum OutgoingFailure: String, Error, Hashable, Sendable {
    case timedOut = "timed_out"
    /// No connection, or a broken one.
    case unreachable
    /// The certificate is not trusted by the system for that name.
    case notTrusted = "not_trusted"
    case answerTooLong = "answer_too_long"
    /// The response is a redirect, which is never followed: the request is meant for one address.
    case redirected
    /// The maximum number of calls is already in progress.
    case busy
    /// The caller cancelled, or the server is shutting down.
    case cancelled
}

/// Safe to use from every thread.
package final class OutgoingHTTP: Sendable {
    /// Maximum number of calls in progress. A caller that must not be blocked by the slow server of another caller
    /// uses a separate OutgoingHTTP.
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
    ///   - timeoutMilliseconds: limit of the whole call: name resolution, connecting, TLS, sending, and receiving up
    ///     to the last byte.
    ///   - answerBytesMax: limit of the response's content, decoded; a longer response ends the call.
    package func send(
        _ request: OutgoingRequest, timeoutMilliseconds: Int, answerBytesMax: Int
    ) async throws(OutgoingFailure) -> OutgoingResponse {
        let call = OutgoingCall()
        try begin(call)
        // Each call has its own thread, because libcurl blocks. A call's slot is freed only when its thread ends, so
        // that there are never more threads than slots.
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

    /// Rejects further calls, and ends those in progress as `cancelled`.
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
