// Writes log lines to one file descriptor, normally with one write(2) per line. It never waits long for a reader that
// has stopped.
//
// If a pipe's reader has stopped, a write would block the event loop that logs. The descriptor is therefore polled
// first (poll(2)). A pipe or socket that reports POLLOUT accepts a line of up to PIPE_BUF bytes at once.
//
// If the descriptor does not report POLLOUT within `waitMilliseconds`, the line is dropped and counted. After a dropped
// line, later polls do not wait. When a line can be written again, an additional line reports how many lines were
// dropped.
//
// No line is buffered in memory, so a crash of the process loses no line.

import Logging
import Synchronization

#if canImport(Glibc)
    import Glibc
#elseif canImport(Musl)
    import Musl
#else
    import Darwin
#endif

/// A descriptor for log lines. Safe to use from every thread.
package final class LogOutput: Sendable {
    /// Standard error. Standard output is reserved for a command's result, such as the token of `dwell token`. Also,
    /// systemd and container runtimes collect a service's log from standard error.
    package static let standardError = LogOutput(descriptor: STDERR_FILENO)

    /// The maximum wait for POLLOUT in milliseconds. It is long enough for a reader that is only waiting for processor
    /// time. It is short enough not to disturb the event loop that logs the line.
    static let waitMilliseconds: Int32 = 5

    private let descriptor: Int32
    private let dropped = Mutex(0)

    /// Creates an output that does not own the descriptor and never closes it.
    package init(descriptor: Int32) {
        self.descriptor = descriptor
    }

    /// Whether the descriptor is a terminal.
    package var isTerminal: Bool {
        isatty(descriptor) == 1
    }

    /// Writes one line, or drops it if the descriptor is not ready. If earlier lines were dropped, also writes the line
    /// that `missing` returns for their number.
    package func write(_ line: [UInt8], missing: (_ count: Int) -> [UInt8]) {
        dropped.withLock { dropped in
            guard isWritable(waitMilliseconds: dropped == 0 ? Self.waitMilliseconds : 0) else {
                dropped += 1
                return
            }
            writeAll(line)
            if dropped > 0, isWritable(waitMilliseconds: 0) {
                writeAll(missing(dropped))
                dropped = 0
            }
        }
    }

    private func isWritable(waitMilliseconds: Int32) -> Bool {
        var entry = pollfd(fd: descriptor, events: Int16(POLLOUT), revents: 0)
        guard poll(&entry, 1, waitMilliseconds) == 1 else { return false }
        // POLLERR means that the reading end of a pipe is closed. POLLHUP means that the peer of a socket is gone. In
        // both cases, a write would raise SIGPIPE, which only the server ignores.
        return entry.revents & Int16(POLLOUT) != 0 && entry.revents & Int16(POLLERR | POLLHUP | POLLNVAL) == 0
    }

    /// Writes the line in as many calls as necessary: a terminal or socket may accept only a part of it per call. If a
    /// call fails, the rest of the line is dropped, because the failure cannot be reported anywhere.
    private func writeAll(_ line: [UInt8]) {
        line.withUnsafeBytes { buffer in
            var rest = buffer[...]
            while let start = UnsafeRawBufferPointer(rebasing: rest).baseAddress, !rest.isEmpty {
                #if canImport(Darwin)
                    let written = Darwin.write(descriptor, start, rest.count)
                #elseif canImport(Musl)
                    let written = Musl.write(descriptor, start, rest.count)
                #else
                    let written = Glibc.write(descriptor, start, rest.count)
                #endif
                if written > 0 {
                    rest = rest.dropFirst(written)
                } else if errno != EINTR {
                    return
                }
            }
        }
    }
}
