// Which descriptors are ready: epoll, and the one file that knows so. A kqueue form would have the same five members.
//
// Connections are registered once, for both directions, edge-triggered, and never touched again until they are
// closed. Level-triggered was the alternative: it would report a client that pipelines while its handler waits for a
// commit again and again, or cost an epoll_ctl before and after every request to silence it. An edge needs neither,
// because a connection always tries the call before it waits (Connection.swift says why no edge is lost).
// Listeners are level-triggered: they accept in bounded batches, and what is left over must be reported again.

internal import CEpoll

#if canImport(Glibc)
    internal import Glibc
#endif

/// What a descriptor is ready for.
struct Readiness: OptionSet {
    let rawValue: UInt32
    static let readable = Readiness(rawValue: EPOLLIN.rawValue)
    static let writable = Readiness(rawValue: EPOLLOUT.rawValue)
    /// The peer sent its last byte (EPOLLRDHUP), or the connection is down (EPOLLHUP), or failed (EPOLLERR).
    static let ended = Readiness(rawValue: EPOLLRDHUP.rawValue | EPOLLHUP.rawValue | EPOLLERR.rawValue)
}

struct Poller {
    /// Readable itself while a registered descriptor has something to report.
    let descriptor: Int32
    private let syscalls: Syscalls
    private let events: UnsafeMutablePointer<epoll_event>
    /// Events taken in one call; the rest is reported by the next one.
    private static let eventsMax = 256

    init(_ syscalls: Syscalls) throws(TransportError) {
        let answer = syscalls.pollerCreate()
        if answer < 0 { throw .system(call: "epoll_create1", errno: Int32(-answer)) }
        self.descriptor = Int32(answer)
        self.syscalls = syscalls
        self.events = .allocate(capacity: Poller.eventsMax)
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

    /// Hands over what is ready now, without waiting, and says how many that were.
    @inline(__always)
    func takeReady(_ body: (_ token: UInt64, Readiness) -> Void) -> Int {
        let count = Int(epoll_wait(descriptor, events, Int32(Poller.eventsMax), 0))
        if count <= 0 { return 0 }
        for index in 0..<count {
            body(events[index].data.u64, Readiness(rawValue: events[index].events))
        }
        return count
    }

    /// After this nothing may be called.
    func close() {
        _ = syscalls.close(descriptor)
        events.deallocate()
    }
}
