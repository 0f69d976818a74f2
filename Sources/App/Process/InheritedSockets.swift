// Listening sockets passed to this process by its parent, as in systemd's socket activation (sd_listen_fds(3)).
// Such a socket outlives the process: while one server ends and the next one starts, the kernel queues clients
// instead of rejecting them.

import Foundation

enum InheritedSockets {
    /// The first descriptor after the three standard streams.
    private static let firstDescriptor: Int32 = 3
    private static let countMax: Int32 = 64

    static var ofThisProcess: [Int32] {
        descriptors(ProcessInfo.processInfo.environment, processID: ProcessInfo.processInfo.processIdentifier)
    }

    /// Returns the passed descriptors. Returns none unless LISTEN_PID names this process, because child processes
    /// inherit the variables too.
    static func descriptors(_ environment: [String: String], processID: Int32) -> [Int32] {
        guard let pid = environment["LISTEN_PID"].flatMap({ Int32($0) }), pid == processID,
            let count = environment["LISTEN_FDS"].flatMap({ Int32($0) }), (1...countMax).contains(count)
        else { return [] }
        return (0..<count).map { firstDescriptor + $0 }
    }
}
