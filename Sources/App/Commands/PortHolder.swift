// Finds the process that uses a port that the server needs. The information comes from /proc on Linux, where only root
// sees the open files of other users' processes.

import Foundation
import HTTPServer
import Sockets

enum PortHolder {
    /// Returns a hint if the error means that a port is in use. Returns nil for any other error.
    static func hint(about error: CannotListen) -> String? {
        guard case .system(_, EADDRINUSE) = error.reason, case .ip(_, let port) = error.address else { return nil }
        let holders = names(ofListenersOn: port)
        let who =
            holders.isEmpty
            ? "another program listens on port \(port) (ss -ltnp, as root, shows which)"
            : "port \(port) is held by \(holders.joined(separator: " and "))"
        return "\(who); stop it, or choose another port: HTTP_PORT=\(port < 65535 ? port + 1 : port - 1)"
    }

    /// Returns text such as `caddy (process 1234)` for each process that listens on the port. Processes that the user
    /// cannot see are left out.
    ///
    /// Reads the kernel's table of sockets up to three times, until a process is found. The kernel returns this table
    /// in pieces. If any socket opens or closes between two pieces, the table may lack the socket of this port.
    static func names(ofListenersOn port: Int) -> [String] {
        for _ in 0..<2 {
            let names = readNames(ofListenersOn: port)
            if !names.isEmpty { return names }
        }
        return readNames(ofListenersOn: port)
    }

    private static func readNames(ofListenersOn port: Int) -> [String] {
        let sockets = Set(
            ["/proc/net/tcp", "/proc/net/tcp6"].flatMap { file in
                (try? String(contentsOfFile: file, encoding: .utf8)).map { inodes(in: $0, port: port) } ?? []
            }.map { "socket:[\($0)]" })
        guard !sockets.isEmpty, let entries = try? FileManager.default.contentsOfDirectory(atPath: "/proc") else {
            return []
        }
        return entries.compactMap(Int.init).sorted().compactMap { process in
            let folder = "/proc/\(process)/fd"
            let files = (try? FileManager.default.contentsOfDirectory(atPath: folder)) ?? []
            let holds = files.contains { file in
                (try? FileManager.default.destinationOfSymbolicLink(atPath: "\(folder)/\(file)"))
                    .map(sockets.contains) ?? false
            }
            guard holds else { return nil }
            let name = try? String(contentsOfFile: "/proc/\(process)/comm", encoding: .utf8)
            return "\((name ?? "a program").trimmingCharacters(in: .newlines)) (process \(process))"
        }
    }

    /// Returns the inodes of the sockets that listen on `port`, from a table in the format of /proc/net/tcp (proc(5)).
    ///
    /// The second column ends with the port in hexadecimal. The fourth column is the state of the socket (0A:
    /// listening). The tenth column is the inode.
    static func inodes(in table: String, port: Int) -> [String] {
        table.split(separator: "\n").dropFirst().compactMap { line in
            let columns = line.split(separator: " ")
            guard columns.count > 9, columns[3] == "0A",
                let digits = columns[1].split(separator: ":").last, Int(digits, radix: 16) == port
            else { return nil }
            return String(columns[9])
        }
    }
}
