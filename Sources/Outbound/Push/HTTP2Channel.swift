// Sends many POST requests at once to one origin, over one or sometimes two HTTP/2 connections (`HTTP2Loop.open`).
// Callers may be on any thread. libcurl runs on the channel's own thread, in HTTP2Loop.

import CCurl
package import Foundation
import Synchronization

/// A POST request to the channel's origin.
struct HTTP2Request: Sendable {
    /// The path, which begins with a slash.
    var path: String
    var fields: [(name: String, value: String)]
    var body: [UInt8]
}

/// A client of one origin. Tests replace it with a client that returns prepared responses.
protocol HTTP2Sending: Sendable {
    /// The time limit of one request, in milliseconds.
    var timeoutMilliseconds: Int { get }

    func send(_ request: HTTP2Request) async throws(OutgoingFailure) -> OutgoingResponse
}

package final class HTTP2Channel: HTTP2Sending, Sendable {
    struct Limits: Sendable {
        /// The maximum number of requests in progress. If a round trip takes 100 ms, 500 requests in progress give
        /// 5,000 requests a second.
        ///
        /// APNs allows about 1,000 requests in progress. This limit is lower, because each call of libcurl visits all
        /// open transfers.
        var streamsMax = 500
        /// The maximum number of requests that wait for a stream. A further request fails at once as `busy`.
        var waitingMax = 20_000
        /// The time limit of a request in milliseconds. The wait for a stream counts too.
        var timeoutMilliseconds = 10_000
        /// Maximum bytes of a response. APNs and FCM send less than 2 KiB.
        var answerBytesMax = 65_536
    }

    /// A request that was handed over to the loop.
    struct Submission: Sendable {
        var request: HTTP2Request
        var call: OutgoingCall
        var deadline: ContinuousClock.Instant
    }

    package struct Status: Hashable, Sendable {
        /// Requests in progress.
        package var openStreams = 0
        /// Requests that wait for a stream.
        package var waiting = 0
        /// Connections made since the start of the process.
        package var connectionsMade = 0
    }

    private struct State {
        var inbox: [Submission] = []
        /// The submissions that have not ended.
        var pendingCount = 0
        var openStreams = 0
        var connectionsMade = 0
        var isClosed = false
        var hasThread = false
        /// The handle on which the channel's thread waits; nil while the loop has no handle.
        var waker: Waker?
    }

    /// A multi handle of libcurl, used only to wake the thread that waits on it.
    ///
    /// `@unchecked Sendable` is safe because `wake` calls only curl_multi_wakeup, which any thread may call while the
    /// handle exists. `wake` is called under the lock of `state`. The loop sets `waker` to nil under the same lock
    /// before it frees the handle.
    private struct Waker: @unchecked Sendable {
        let multi: UnsafeMutableRawPointer

        func wake() { _ = curl_multi_wakeup(multi) }
    }

    let origin: String
    let authorityFile: String?
    let limits: Limits
    var timeoutMilliseconds: Int { limits.timeoutMilliseconds }
    private let state = Mutex(State())

    /// - Parameters:
    ///   - origin: an https URL. If it has a path, the path of each request is appended to that path.
    ///   - authorityFile: the path of a PEM file with certificates that are trusted in addition to the system's; nil if
    ///     only the system's are trusted.
    package convenience init(origin: URL, authorityFile: String?) {
        self.init(origin: origin, authorityFile: authorityFile, limits: Limits())
    }

    init(origin: URL, authorityFile: String?, limits: Limits) {
        let text = origin.absoluteString
        self.origin = text.hasSuffix("/") ? String(text.dropLast()) : text
        self.authorityFile = authorityFile
        self.limits = limits
    }

    /// Sends the request, and returns within the time limit. Fails as `busy` if too many requests wait, and as
    /// `cancelled` if the caller's task is cancelled or the channel is closed.
    func send(_ request: HTTP2Request) async throws(OutgoingFailure) -> OutgoingResponse {
        let call = OutgoingCall()
        let deadline = ContinuousClock.now.advanced(by: .milliseconds(limits.timeoutMilliseconds))
        return try await withTaskCancellationHandler {
            await withCheckedContinuation { continuation in
                call.begin(continuation)
                submit(Submission(request: request, call: call, deadline: deadline))
            }
        } onCancel: {
            call.end(with: .failure(.cancelled))
        }.get()
    }

    private func submit(_ submission: Submission) {
        enum Outcome {
            case taken
            case needsThread
            case refused(OutgoingFailure)
        }
        let outcome = state.withLock { state -> Outcome in
            if state.isClosed { return .refused(.cancelled) }
            if state.pendingCount >= limits.streamsMax + limits.waitingMax { return .refused(.busy) }
            state.pendingCount += 1
            state.inbox.append(submission)
            guard state.hasThread else {
                state.hasThread = true
                return .needsThread
            }
            // The loop empties the inbox before it waits. Therefore only a submission to an empty inbox has to wake the
            // loop.
            if state.inbox.count == 1 { state.waker?.wake() }
            return .taken
        }
        switch outcome {
        case .taken: break
        case .needsThread:
            let thread = Thread { HTTP2Loop(self).run() }
            thread.stackSize = 1 << 20
            thread.name = "push"
            thread.start()
        case .refused(let failure): submission.call.end(with: .failure(failure))
        }
    }

    /// Rejects further requests, and ends the requests in progress as `cancelled`. The thread ends soon afterwards.
    package func close() {
        state.withLock { state in
            state.isClosed = true
            state.waker?.wake()
        }
    }

    package var status: Status {
        state.withLock { state in
            Status(
                openStreams: state.openStreams, waiting: state.pendingCount - state.openStreams,
                connectionsMade: state.connectionsMade)
        }
    }

    // MARK: The loop's side

    /// Returns nil when the channel is closed.
    func take(openStreams: Int) -> [Submission]? {
        state.withLock { state in
            state.openStreams = openStreams
            guard !state.isClosed else { return nil }
            defer { state.inbox.removeAll(keepingCapacity: true) }
            return state.inbox
        }
    }

    /// Takes what was submitted before the channel was closed.
    func takeLast() -> [Submission] {
        state.withLock { state in
            defer { state.inbox = [] }
            return state.inbox
        }
    }

    /// Counts `count` submissions as ended.
    ///
    /// - Parameter openStreams: the number of open streams after these submissions have ended.
    func ended(_ count: Int, openStreams: Int, connectionsMade: Int = 0) {
        state.withLock { state in
            state.pendingCount -= count
            state.openStreams = openStreams
            state.connectionsMade += connectionsMade
        }
    }

    /// Sets the handle with which `submit` and `close` wake the channel's thread. Must be called with nil before the
    /// handle is freed.
    func wake(_ multi: UnsafeMutableRawPointer?) {
        let waker = multi.map { Waker(multi: $0) }
        state.withLock { $0.waker = waker }
    }
}
