// Sockets that listen already and were handed to this process by its parent, in the way of systemd's socket
// activation (sd_listen_fds(3)). Such a socket outlives the process: while one server ends and the next one starts,
// the kernel lets clients wait instead of refusing them.

import Foundation

enum InheritedSockets {
    /// The first descriptor after the three standard streams.
    private static let firstDescriptor: Int32 = 3
    private static let countMax: Int32 = 64

    static var ofThisProcess: [Int32] {
        descriptors(ProcessInfo.processInfo.environment, processID: ProcessInfo.processInfo.processIdentifier)
    }

    /// None unless LISTEN_PID names this process: the variables are inherited by others too.
    static func descriptors(_ environment: [String: String], processID: Int32) -> [Int32] {
        guard let pid = environment["LISTEN_PID"].flatMap({ Int32($0) }), pid == processID,
            let count = environment["LISTEN_FDS"].flatMap({ Int32($0) }), (1...countMax).contains(count)
        else { return [] }
        return (0..<count).map { firstDescriptor + $0 }
    }
}
