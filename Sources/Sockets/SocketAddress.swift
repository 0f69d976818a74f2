#if canImport(Glibc)
    internal import Glibc
#elseif canImport(Darwin)
    internal import Darwin
#endif

/// A configured address, to listen on or to connect to.
package enum SocketAddress: Hashable, Sendable, CustomStringConvertible {
    /// An IPv4 or IPv6 address (without brackets) or a name, and a port of 0...65535. Port 0 is allowed only for
    /// listening, and lets the system choose a port.
    case ip(host: String, port: Int)
    /// The path of a Unix socket; at most 107 bytes.
    case unix(path: String)
    /// A listening socket that this process inherited from its parent. It cannot be used to connect.
    case inherited(descriptor: Int32)

    package var description: String {
        switch self {
        case .ip(let host, let port): host.utf8.contains(UInt8(ascii: ":")) ? "[\(host)]:\(port)" : "\(host):\(port)"
        case .unix(let path): "unix:\(path)"
        case .inherited(let descriptor): "descriptor \(descriptor)"
        }
    }
}

/// A resolved socket address, as the system represents it.
struct Endpoint: Sendable {
    private(set) var storage = sockaddr_storage()
    private(set) var length = socklen_t(0)

    var family: Int32 { Int32(storage.ss_family) }

    /// Returns the endpoint that a system call such as accept or getsockname fills in, and the call's result.
    static func filled(_ call: (UnsafeMutablePointer<sockaddr>, inout socklen_t) -> Int) -> (Endpoint, Int) {
        var endpoint = Endpoint()
        var length = socklen_t(MemoryLayout<sockaddr_storage>.size)
        let answer = withUnsafeMutablePointer(to: &endpoint.storage) { storage in
            storage.withMemoryRebound(to: sockaddr.self, capacity: 1) { call($0, &length) }
        }
        endpoint.length = min(length, socklen_t(MemoryLayout<sockaddr_storage>.size))
        return (endpoint, answer)
    }

    init() {}

    init(copying address: UnsafePointer<sockaddr>, length: socklen_t) {
        self.length = min(length, socklen_t(MemoryLayout<sockaddr_storage>.size))
        let count = Int(self.length)
        withUnsafeMutableBytes(of: &storage) { $0.copyMemory(from: .init(start: address, count: count)) }
    }

    /// Creates the endpoint of a Unix socket. Returns nil if the path is empty, contains a NUL, or is too long for
    /// sockaddr_un.
    init?(unixPath: String) {
        var address = sockaddr_un()
        let bytes = Array(unixPath.utf8)
        let capacity = MemoryLayout.size(ofValue: address.sun_path)
        if bytes.isEmpty || bytes.count >= capacity || bytes.contains(0) { return nil }
        address.sun_family = sa_family_t(AF_UNIX)
        withUnsafeMutableBytes(of: &address.sun_path) { $0.copyBytes(from: bytes) }
        let size = MemoryLayout<sockaddr_un>.size
        withUnsafeMutableBytes(of: &storage) { target in
            withUnsafeBytes(of: &address) { target.copyMemory(from: $0) }
        }
        length = socklen_t(size)
    }

    func withPointer<Result>(_ body: (UnsafePointer<sockaddr>, socklen_t) -> Result) -> Result {
        withUnsafePointer(to: storage) { storage in
            storage.withMemoryRebound(to: sockaddr.self, capacity: 1) { body($0, length) }
        }
    }

    /// The port; 0 for a Unix socket.
    var port: Int {
        guard family == AF_INET || family == AF_INET6 else { return 0 }
        // sin_port and sin6_port have the same offset.
        return withUnsafeBytes(of: storage) { Int(UInt16(bigEndian: $0.load(fromByteOffset: 2, as: UInt16.self))) }
    }

    mutating func setPort(_ port: Int) {
        guard family == AF_INET || family == AF_INET6 else { return }
        let value = UInt16(clamping: port).bigEndian
        withUnsafeMutableBytes(of: &storage) { $0.storeBytes(of: value, toByteOffset: 2, as: UInt16.self) }
    }

    /// The address bytes in network order; empty for a Unix socket.
    var number: [UInt8] {
        withUnsafeBytes(of: storage) { bytes in
            switch family {
            case AF_INET: Array(bytes[4..<8])
            case AF_INET6: Array(bytes[8..<24])
            default: []
            }
        }
    }

    /// The path of a Unix socket; "" for a Unix socket without a file and for an IP address.
    var unixPath: String {
        guard family == AF_UNIX else { return "" }
        return withUnsafeBytes(of: storage) { bytes in
            String(decoding: bytes[2..<max(2, Int(length))].prefix { $0 != 0 }, as: UTF8.self)
        }
    }

    /// The IP address as text, without port, brackets or zone; "" for a Unix socket.
    var text: String { IPAddress(self)?.text ?? "" }
}
