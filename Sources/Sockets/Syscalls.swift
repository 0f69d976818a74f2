// The system calls of this module that may fail, as closures. A test can replace a closure, for example to make the
// n-th call fail with EINTR, EAGAIN or EMFILE. Poller.swift calls epoll_wait and the functions of its eventfd directly.
//
// A closure returns the result of its call, which is never negative. If the call fails, the closure returns the negated
// errno, because another call could overwrite errno itself. Only `retried` repeats a call after EINTR.

internal import CEpoll

#if canImport(Glibc)
    package import Glibc
#elseif canImport(Darwin)
    package import Darwin
#endif

package struct Syscalls: Sendable {
    package var socket: @Sendable (_ domain: Int32, _ type: Int32) -> Int
    package var bind: @Sendable (_ descriptor: Int32, UnsafePointer<sockaddr>, socklen_t) -> Int
    package var listen: @Sendable (_ descriptor: Int32, _ backlog: Int32) -> Int
    package var accept: @Sendable (_ listener: Int32, UnsafeMutablePointer<sockaddr>, inout socklen_t) -> Int
    package var connect: @Sendable (_ descriptor: Int32, UnsafePointer<sockaddr>, socklen_t) -> Int
    package var receive: @Sendable (_ descriptor: Int32, UnsafeMutableRawBufferPointer) -> Int
    package var send: @Sendable (_ descriptor: Int32, UnsafeRawBufferPointer) -> Int
    package var shutdownWrite: @Sendable (_ descriptor: Int32) -> Int
    package var close: @Sendable (_ descriptor: Int32) -> Int
    package var getOption: @Sendable (_ descriptor: Int32, _ level: Int32, _ name: Int32, inout Int32) -> Int
    package var setOption: @Sendable (_ descriptor: Int32, _ level: Int32, _ name: Int32, _ value: Int32) -> Int
    package var localName: @Sendable (_ descriptor: Int32, UnsafeMutablePointer<sockaddr>, inout socklen_t) -> Int
    /// Sets O_NONBLOCK and FD_CLOEXEC on an inherited socket. Sockets that this process opens have both flags from the
    /// start.
    package var makeOwn: @Sendable (_ descriptor: Int32) -> Int
    /// Opens /dev/null and returns its descriptor. A listener holds it in reserve. If no other descriptor is free, the
    /// listener closes the reserve, accepts a client in its place, and closes the client's connection.
    package var openSpare: @Sendable () -> Int
    /// Returns the st_mode of the path itself, without following symbolic links.
    package var fileMode: @Sendable (_ path: String) -> Int
    package var unlink: @Sendable (_ path: String) -> Int
    package var pollerCreate: @Sendable () -> Int
    package var pollerAdd: @Sendable (_ poller: Int32, _ descriptor: Int32, _ events: UInt32, _ token: UInt64) -> Int
    package var pollerRemove: @Sendable (_ poller: Int32, _ descriptor: Int32) -> Int

    /// Repeats a call that a signal interrupted. Must not be used for `close`. On Linux, EINTR does not prevent the
    /// descriptor from being closed, and another thread may already have reused its number.
    @inline(__always)
    static func retried(_ call: () -> Int) -> Int {
        while true {
            let answer = call()
            if answer != Int(-EINTR) { return answer }
        }
    }
}

#if os(Linux)
    extension Syscalls {
        package static let system = Syscalls(
            socket: { answered(Int(Glibc.socket($0, $1, 0))) },
            bind: { answered(Int(Glibc.bind($0, $1, $2))) },
            listen: { answered(Int(Glibc.listen($0, $1))) },
            accept: { answered(Int(dwell_accept4($0, $1, &$2))) },
            connect: { answered(Int(Glibc.connect($0, $1, $2))) },
            receive: { answered(Glibc.recv($0, $1.baseAddress, $1.count, 0)) },
            // Without MSG_NOSIGNAL, a send to a peer that is gone would end the process with SIGPIPE.
            send: { answered(Glibc.send($0, $1.baseAddress, $1.count, Int32(MSG_NOSIGNAL))) },
            shutdownWrite: { answered(Int(Glibc.shutdown($0, Int32(SHUT_WR)))) },
            close: { answered(Int(Glibc.close($0))) },
            getOption: { descriptor, level, name, value in
                var length = socklen_t(MemoryLayout<Int32>.size)
                return answered(Int(getsockopt(descriptor, level, name, &value, &length)))
            },
            setOption: { descriptor, level, name, value in
                var value = value
                let length = socklen_t(MemoryLayout<Int32>.size)
                return answered(Int(setsockopt(descriptor, level, name, &value, length)))
            },
            localName: { answered(Int(getsockname($0, $1, &$2))) },
            makeOwn: { descriptor in
                let flags = fcntl(descriptor, F_GETFL)
                if flags < 0 || fcntl(descriptor, F_SETFL, flags | O_NONBLOCK) < 0 { return Int(-errno) }
                return answered(Int(fcntl(descriptor, F_SETFD, FD_CLOEXEC)))
            },
            openSpare: { answered(Int(Glibc.open("/dev/null", O_RDONLY | O_CLOEXEC))) },
            fileMode: { path in
                var status = stat()
                let answer = Int(lstat(path, &status))
                return answer < 0 ? answered(answer) : Int(status.st_mode)
            },
            unlink: { answered(Int(Glibc.unlink($0))) },
            pollerCreate: { answered(Int(epoll_create1(Int32(EPOLL_CLOEXEC)))) },
            pollerAdd: { poller, descriptor, events, token in
                var event = epoll_event(events: events, data: epoll_data_t(u64: token))
                return answered(Int(epoll_ctl(poller, EPOLL_CTL_ADD, descriptor, &event)))
            },
            pollerRemove: { answered(Int(epoll_ctl($0, EPOLL_CTL_DEL, $1, nil))) }
        )

        /// Returns the result of a call, or the negated errno if the call failed. Must be called before another call
        /// changes errno.
        @inline(__always)
        private static func answered(_ answer: Int) -> Int {
            answer >= 0 ? answer : Int(-errno)
        }
    }
#endif
