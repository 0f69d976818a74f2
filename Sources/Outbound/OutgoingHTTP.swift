// The one place from which the server calls others over HTTP: libcurl, held to what is bounded. It refuses to know whom
// it calls and what about, and never puts a URL, a field or a body into an error: secrets travel in all three.

package import Foundation
import Synchronization

package struct OutgoingRequest: Sendable {
    package enum Method: String, Sendable {
        case get = "GET"
        case post = "POST"
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

package struct OutgoingAnswer: Hashable, Sendable {
    package var status: Int
    package var cacheControl: String?
    /// `Retry-After` in seconds; nil when it is absent, or a date.
    package var retryAfterSeconds: Int?
    package var body: [UInt8]
}

/// Why there is no answer. The raw values are for logs.
package enum OutgoingFailure: String, Error, Hashable, Sendable {
    case timedOut = "timed_out"
    /// No connection, or one that broke.
    case unreachable
    /// The certificate is not one that the system trusts for that name.
    case notTrusted = "not_trusted"
    case answerTooLong = "answer_too_long"
    /// Answered with a redirection, which nobody follows: what is sent is for one address.
    case redirected
    /// As many calls are under way as there may be.
    case busy
    /// The caller gave up, or the server ends.
    case cancelled
}

/// Safe to use from every thread.
package final class OutgoingHTTP: Sendable {
    /// Calls under way. Who must not be kept out by another's slow server has an OutgoingHTTP of its own.
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
    ///   - timeoutMilliseconds: for all of it: the name looked up, connecting, TLS, sending, the last byte of the answer.
    ///   - answerBytesMax: of the answer's content, as it is decoded; more ends the call while it is received.
    package func send(
        _ request: OutgoingRequest, timeoutMilliseconds: Int, answerBytesMax: Int
    ) async throws(OutgoingFailure) -> OutgoingAnswer {
        let call = OutgoingCall()
        try begin(call)
        // A thread each, because libcurl blocks it. It gives the call's place back only when it ends itself, so that there
        // are never more threads than places.
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

    /// No more calls; those under way end as `cancelled`.
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
