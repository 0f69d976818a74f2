// System calls that follow a script. The n-th call of one kind fails, and all other calls go to the kernel. The script
// records open descriptors and descriptors that are closed twice.

import Synchronization

@testable import Sockets

#if canImport(Glibc)
    import Glibc
#endif

struct Fault: Hashable, Sendable, CustomStringConvertible {
    enum Call: String, Sendable, CaseIterable {
        case socket, bind, listen, accept, connect, receive, send, setOption, localName, openSpare
        case pollerCreate, pollerAdd, shutdownWrite
    }
    enum Kind: Hashable, Sendable {
        case errno(Int32)
        /// The call transfers only one byte.
        case short
    }
    var call: Call
    var kind: Kind

    var description: String { "\(call.rawValue) \(kind)" }

    init(_ call: Call, _ errno: Int32) {
        self.call = call
        kind = .errno(errno)
    }

    init(short call: Call) {
        self.call = call
        kind = .short
    }
}

final class FaultScript: Sendable {
    private struct State {
        var calls = 0
        var open: Set<Int32> = []
        var closedTwice: [Int32] = []
        var registrations: [Int32: (poller: Int32, events: UInt32, token: UInt64)] = [:]
    }
    private let fault: Fault
    /// The numbers of the failing calls of the kind `fault.call`. The first call has the number 1.
    private let range: Range<Int>
    private let state = Mutex(State())

    init(_ fault: Fault, at n: Int, count: Int = 1) {
        self.fault = fault
        range = n..<(n + count)
    }

    /// Whether the scripted fault has occurred at least once.
    var wasReached: Bool { state.withLock { $0.calls >= range.lowerBound } }
    var openDescriptors: Set<Int32> { state.withLock { $0.open } }
    var closedTwice: [Int32] { state.withLock { $0.closedTwice } }

    private func next(_ call: Fault.Call) -> Fault.Kind? {
        guard call == fault.call else { return nil }
        return state.withLock { state in
            state.calls += 1
            return range.contains(state.calls) ? fault.kind : nil
        }
    }

    private func answer(_ call: Fault.Call, _ real: () -> Int) -> Int {
        guard case .errno(let errno) = next(call) else { return real() }
        return Int(-errno)
    }

    private func opened(_ answer: Int) -> Int {
        if answer >= 0 { state.withLock { _ = $0.open.insert(Int32(answer)) } }
        return answer
    }

    /// Makes the poller report the descriptor again. The poller reports a descriptor only when it becomes ready. A
    /// descriptor stays ready after a scripted EAGAIN or short transfer, so the poller would be silent.
    private func reportAgain(_ descriptor: Int32) {
        guard let known = state.withLock({ $0.registrations[descriptor] }) else { return }
        _ = Syscalls.system.pollerRemove(known.poller, descriptor)
        _ = Syscalls.system.pollerAdd(known.poller, descriptor, known.events, known.token)
    }

    private func transfer(_ call: Fault.Call, _ descriptor: Int32, _ count: Int, _ real: (Int) -> Int) -> Int {
        switch next(call) {
        case nil: return real(count)
        case .short:
            defer { reportAgain(descriptor) }
            return real(min(1, count))
        case .errno(let errno):
            if errno == EAGAIN { reportAgain(descriptor) }
            return Int(-errno)
        }
    }

    var syscalls: Syscalls {
        var calls = Syscalls.system
        let system = Syscalls.system
        calls.socket = { a, b in self.opened(self.answer(.socket) { system.socket(a, b) }) }
        calls.bind = { a, b, c in self.answer(.bind) { system.bind(a, b, c) } }
        calls.listen = { a, b in self.answer(.listen) { system.listen(a, b) } }
        calls.accept = { a, b, c in self.opened(self.answer(.accept) { system.accept(a, b, &c) }) }
        calls.connect = { a, b, c in self.answer(.connect) { system.connect(a, b, c) } }
        calls.setOption = { a, b, c, d in self.answer(.setOption) { system.setOption(a, b, c, d) } }
        calls.localName = { a, b, c in self.answer(.localName) { system.localName(a, b, &c) } }
        calls.openSpare = { self.opened(self.answer(.openSpare) { system.openSpare() }) }
        calls.pollerCreate = { self.opened(self.answer(.pollerCreate) { system.pollerCreate() }) }
        calls.shutdownWrite = { a in self.answer(.shutdownWrite) { system.shutdownWrite(a) } }
        calls.receive = { descriptor, buffer in
            self.transfer(.receive, descriptor, buffer.count) { count in
                system.receive(descriptor, UnsafeMutableRawBufferPointer(rebasing: buffer[..<count]))
            }
        }
        calls.send = { descriptor, bytes in
            self.transfer(.send, descriptor, bytes.count) { count in
                system.send(descriptor, UnsafeRawBufferPointer(rebasing: bytes[..<count]))
            }
        }
        calls.pollerAdd = { poller, descriptor, events, token in
            self.answer(.pollerAdd) {
                self.state.withLock { $0.registrations[descriptor] = (poller, events, token) }
                return system.pollerAdd(poller, descriptor, events, token)
            }
        }
        calls.close = { descriptor in
            self.state.withLock { state in
                if state.open.remove(descriptor) == nil { state.closedTwice.append(descriptor) }
                state.registrations[descriptor] = nil
            }
            return system.close(descriptor)
        }
        return calls
    }
}

/// Returns the number of entries of /proc/self/fd, or -1 after an error. Three entries do not belong to the test: `.`,
/// `..` and the descriptor that reads the directory.
func openDescriptorCount() -> Int {
    guard let directory = opendir("/proc/self/fd") else { return -1 }
    defer { closedir(directory) }
    var count = 0
    while readdir(directory) != nil { count += 1 }
    return count
}
