// Listening sockets that the parent process passes to this process, as in systemd's socket activation
// (sd_listen_fds(3)). Such a socket stays open when this process ends. The kernel therefore queues new connections
// until the next server starts.

import Foundation

enum InheritedSockets {
    /// The number of the first passed descriptor. Lower numbers belong to the three standard streams.
    private static let firstDescriptor: Int32 = 3
    private static let countMax: Int32 = 64

    static var ofThisProcess: [Int32] {
        descriptors(ProcessInfo.processInfo.environment, processID: ProcessInfo.processInfo.processIdentifier)
    }

    /// Returns the passed descriptors. Returns none if LISTEN_PID is not the id of this process. If LISTEN_PID is the
    /// id of another process, this process has inherited the variable, and the sockets are meant for the other process.
    static func descriptors(_ environment: [String: String], processID: Int32) -> [Int32] {
        guard let pid = environment["LISTEN_PID"].flatMap({ Int32($0) }), pid == processID,
            let count = environment["LISTEN_FDS"].flatMap({ Int32($0) }), (1...countMax).contains(count)
        else { return [] }
        return (0..<count).map { firstDescriptor + $0 }
    }
}
