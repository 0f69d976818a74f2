// The thread of an HTTP2Channel: runs libcurl's multi interface, which sends the requests over one or two connections
// (`open`). The loop enforces the time limits itself, because libcurl 8.13 to 8.15 can wait forever after a transfer's
// first time-out (curl#18177).

import CCurl
import Foundation

/// The type is not Sendable: it is created, used and released on one thread.
final class HTTP2Loop {
    /// How often the time limits are checked, in milliseconds. A request ends at most this long after its time limit.
    private static let checkMilliseconds = 100
    /// How long the thread sleeps when there is nothing to do, unless `HTTP2Channel` wakes it.
    private static let idleMilliseconds: Int32 = 60_000
    /// An idle connection can be reused for this number of seconds. The time is long, because Apple asks providers to
    /// keep connections open.
    private static let idleConnectionSeconds = 3600

    private let channel: HTTP2Channel
    /// The submissions at the index `next` and later wait for a stream. They are in the order of arrival, and therefore
    /// also in the order of their deadlines.
    private var queue: [HTTP2Channel.Submission] = []
    private var next = 0
    private var slots: [HTTP2Slot] = []
    private var idle: [HTTP2Slot] = []
    private var activeCount = 0
    private var multi: UnsafeMutableRawPointer?
    /// Whether this multi handle has received a response, and libcurl has reported no failure since. While this is
    /// false, only one request at a time is sent.
    ///
    /// APNs accepts only one stream until it has verified the provider token. If the loop sent more requests in this
    /// time, libcurl would open more connections for them.
    private var hasResponse = false
    private var lastResponseAt = ContinuousClock.now
    private var nextCheckAt = ContinuousClock.now

    init(_ channel: HTTP2Channel) {
        self.channel = channel
    }

    func run() {
        defer { finish() }
        while true {
            // Without an open handle, `HTTP2Channel.submit` cannot wake the thread. The handle is therefore opened
            // before `take`. Every submission after `take` then wakes the thread.
            let isOpen = multi != nil || open()
            guard let submissions = channel.take(openStreams: activeCount) else { return }
            queue += submissions
            guard isOpen, let multi else {
                failAll(.unreachable)
                // No handle could be opened, probably because memory is exhausted. Without the pause, this loop would
                // use a whole core.
                Thread.sleep(forTimeInterval: 0.1)
                continue
            }
            startCalls(multi)
            var running: Int32 = 0
            guard curl_multi_perform(multi, &running) == CURLM_OK else {
                close(.unreachable)
                continue
            }
            readResults(multi)
            check()
            // `check` may have closed the handle.
            guard self.multi != nil else { continue }
            if next < queue.count, activeCount < streamsAllowed { continue }
            let isIdle = activeCount == 0 && next == queue.count
            let timeout = isIdle ? Self.idleMilliseconds : Int32(Self.checkMilliseconds)
            _ = curl_multi_poll(multi, nil, 0, timeout, nil)
        }
    }

    // MARK: The multi handle

    private func open() -> Bool {
        guard CurlOptions.isReady, let multi = curl_multi_init() else { return false }
        let numbers: [(CURLMoption, Int)] = [
            (CURLMOPT_PIPELINING, Int(CURLPIPE_MULTIPLEX)),
            (CURLMOPT_MAX_CONCURRENT_STREAMS, channel.limits.streamsMax),
            // libcurl opens a second connection while the first one finishes its streams after a GOAWAY. It also opens
            // one if the service allows too few streams on one connection; FCM allows 100.
            (CURLMOPT_MAX_HOST_CONNECTIONS, 2), (CURLMOPT_MAXCONNECTS, 2),
        ]
        guard numbers.allSatisfy({ curl_shim_set_multi_long(multi, $0, $1) == CURLM_OK }) else {
            curl_multi_cleanup(multi)
            return false
        }
        self.multi = multi
        hasResponse = false
        channel.wake(multi)
        return true
    }

    /// Ends all transfers, and frees the multi handle. This closes all connections, because libcurl has no call that
    /// closes a single connection.
    private func close(_ failure: OutgoingFailure) {
        for slot in slots where slot.isActive { end(slot, with: .failure(failure)) }
        guard let multi else { return }
        channel.wake(nil)
        curl_multi_cleanup(multi)
        self.multi = nil
    }

    private func failAll(_ failure: OutgoingFailure) {
        let submissions = queue[next...]
        (queue, next) = ([], 0)
        channel.ended(submissions.count, openStreams: activeCount)
        for submission in submissions { submission.call.end(with: .failure(failure)) }
    }

    private func finish() {
        close(.cancelled)
        queue += channel.takeLast()
        failAll(.cancelled)
        for slot in slots { slot.release() }
    }

    // MARK: Requests

    private var streamsAllowed: Int { hasResponse ? channel.limits.streamsMax : 1 }

    private func startCalls(_ multi: UnsafeMutableRawPointer) {
        while next < queue.count, activeCount < streamsAllowed {
            let submission = queue[next]
            next += 1
            if submission.call.hasEnded || !start(submission, multi) {
                channel.ended(1, openStreams: activeCount)
                submission.call.end(with: .failure(.unreachable))
            }
        }
        if next == queue.count {
            queue.removeAll(keepingCapacity: true)
            next = 0
        } else if next > 4096 {
            queue.removeFirst(next)
            next = 0
        }
    }

    private func start(_ submission: HTTP2Channel.Submission, _ multi: UnsafeMutableRawPointer) -> Bool {
        guard let slot = freeSlot() else { return false }
        guard slot.begin(submission, origin: channel.origin), curl_multi_add_handle(multi, slot.handle) == CURLM_OK
        else {
            idle.append(slot)
            return false
        }
        slot.isActive = true
        activeCount += 1
        return true
    }

    private func freeSlot() -> HTTP2Slot? {
        if let slot = idle.popLast() { return slot }
        guard
            let slot = HTTP2Slot(
                bytesMax: channel.limits.answerBytesMax, authorityFile: channel.authorityFile,
                idleConnectionSeconds: Self.idleConnectionSeconds)
        else { return nil }
        slots.append(slot)
        return slot
    }

    private func readResults(_ multi: UnsafeMutableRawPointer) {
        var left: Int32 = 0
        while let message = curl_multi_info_read(multi, &left) {
            guard message.pointee.msg == CURLMSG_DONE, let slot = HTTP2Slot.of(message.pointee.easy_handle) else {
                continue
            }
            let code = message.pointee.data.result
            if slot.isRepeated(after: code) {
                curl_multi_remove_handle(multi, slot.handle)
                slot.beginRepetition()
                if curl_multi_add_handle(multi, slot.handle) == CURLM_OK { continue }
            }
            let result = slot.result(code)
            switch result {
            case .success:
                hasResponse = true
                lastResponseAt = .now
            case .failure:
                // The connection may be lost. A new connection must again begin with a single request (`hasResponse`).
                hasResponse = false
            }
            end(slot, with: result)
        }
    }

    private func end(_ slot: HTTP2Slot, with result: OutgoingCall.Result) {
        if let multi { curl_multi_remove_handle(multi, slot.handle) }
        slot.isActive = false
        activeCount -= 1
        idle.append(slot)
        channel.ended(1, openStreams: activeCount, connectionsMade: slot.connectionsMade)
        slot.end(with: result)
    }

    // MARK: Time limits

    private func check() {
        let now = ContinuousClock.now
        guard now >= nextCheckAt else { return }
        nextCheckAt = now.advanced(by: .milliseconds(Self.checkMilliseconds))
        let silentSince = now.advanced(by: .milliseconds(-channel.limits.timeoutMilliseconds / 2))
        var isDead = false
        for slot in slots where slot.isActive {
            if slot.deadline <= now {
                // A request times out here. If no response to any request arrived during the last half of the time
                // limit, the connection counts as dead. Without this rule, all requests on a dead connection would wait
                // for their own time limits.
                isDead = isDead || lastResponseAt < silentSince
                end(slot, with: .failure(.timedOut))
            } else if slot.hasEnded {
                end(slot, with: .failure(.cancelled))
            }
        }
        if isDead { close(.unreachable) }
        while next < queue.count, queue[next].deadline <= now {
            let call = queue[next].call
            next += 1
            channel.ended(1, openStreams: activeCount)
            call.end(with: .failure(.timedOut))
        }
    }
}
