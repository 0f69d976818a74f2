// Reports which descriptors are ready. Only this file and the closures that it calls in Syscalls.swift use epoll. A
// version for kqueue would have the same members.
//
// A connection is registered once, edge-triggered and for both directions; Connection.swift says why no edge is lost.
// With level-triggered polling, a pipelining client would be reported again and again while its handler waits for a
// commit. To avoid these reports, each request would need two calls of epoll_ctl.
//
// Listeners are level-triggered. A listener accepts only a limited number of connections per round, so the poller must
// report it again for the others.

internal import CEpoll

#if canImport(Glibc)
    internal import Glibc
#endif

/// The operations for which a descriptor is ready.
struct Readiness: OptionSet {
    let rawValue: UInt32
    static let readable = Readiness(rawValue: EPOLLIN.rawValue)
    static let writable = Readiness(rawValue: EPOLLOUT.rawValue)
    /// The peer sends no more bytes (EPOLLRDHUP), or the connection is down (EPOLLHUP) or failed (EPOLLERR).
    static let ended = Readiness(rawValue: EPOLLRDHUP.rawValue | gone.rawValue)
    /// The connection is down or failed, so no response can reach the peer. epoll always reports these two events.
    static let gone = Readiness(rawValue: EPOLLHUP.rawValue | EPOLLERR.rawValue)
}

/// Safe to share: `events` is touched only by the thread that waits, and everything else is immutable.
struct Poller: @unchecked Sendable {
    private let descriptor: Int32
    /// An eventfd. Another thread writes to it to end a wait.
    private let waker: Int32
    private let syscalls: Syscalls
    private let events: UnsafeMutablePointer<epoll_event>
    /// The maximum number of events that one call of epoll_wait returns. The next call returns further events.
    private static let eventsMax = 256
    /// The token of `waker`; no other descriptor has it.
    private static let wakerToken = UInt64.max

    init(_ syscalls: Syscalls) throws(TransportError) {
        let answer = syscalls.pollerCreate()
        if answer < 0 { throw .system(call: "epoll_create1", errno: Int32(-answer)) }
        let waker = dwell_eventfd()
        // The waker is edge-triggered: each write to the eventfd is reported once, and its counter never has to be
        // read.
        var event = epoll_event(
            events: EPOLLIN.rawValue | EPOLLET.rawValue, data: epoll_data_t(u64: Poller.wakerToken))
        guard waker >= 0, epoll_ctl(Int32(answer), EPOLL_CTL_ADD, waker, &event) == 0 else {
            let failure = TransportError.system(call: "eventfd", errno: errno)
            if waker >= 0 { Glibc.close(waker) }
            _ = syscalls.close(Int32(answer))
            throw failure
        }
        descriptor = Int32(answer)
        self.waker = waker
        self.syscalls = syscalls
        events = .allocate(capacity: Poller.eventsMax)
    }

    func addConnection(_ descriptor: Int32, token: UInt64) throws(TransportError) {
        let interest = EPOLLIN.rawValue | EPOLLOUT.rawValue | EPOLLRDHUP.rawValue | EPOLLET.rawValue
        try add(descriptor, interest, token)
    }

    func addListener(_ descriptor: Int32, token: UInt64) throws(TransportError) {
        try add(descriptor, EPOLLIN.rawValue, token)
    }

    private func add(_ descriptor: Int32, _ interest: UInt32, _ token: UInt64) throws(TransportError) {
        let answer = Syscalls.retried { syscalls.pollerAdd(self.descriptor, descriptor, interest, token) }
        if answer < 0 { throw .system(call: "epoll_ctl", errno: Int32(-answer)) }
    }

    func remove(_ descriptor: Int32) {
        _ = syscalls.pollerRemove(self.descriptor, descriptor)
    }

    /// Waits until a descriptor is ready, `wake` is called, or `milliseconds` have passed (-1: no limit). Returns the
    /// number of events for `takeReady`. `yieldsFirst`: whether to yield the processor before the wait.
    func wait(_ milliseconds: Int32, yieldsFirst: Bool) -> Int {
        if yieldsFirst, milliseconds != 0 { sched_yield() }
        return max(0, Int(epoll_wait(descriptor, events, Int32(Poller.eventsMax), milliseconds)))
    }

    /// Passes the events of the last wait to the closure.
    @inline(__always)
    func takeReady(_ count: Int, _ body: (_ token: UInt64, Readiness) -> Void) {
        for index in 0..<count where events[index].data.u64 != Poller.wakerToken {
            body(events[index].data.u64, Readiness(rawValue: events[index].events))
        }
    }

    /// Ends the current wait. If the loop does not wait, ends its next wait at once. May be called from any thread.
    func wake() {
        var one: UInt64 = 1
        _ = Glibc.write(waker, &one, MemoryLayout<UInt64>.size)
    }

    /// Closes the poller. No other call is allowed afterwards.
    func close() {
        _ = syscalls.close(descriptor)
        Glibc.close(waker)
        events.deallocate()
    }
}
