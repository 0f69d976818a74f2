// TLS for connections to Redis. `RedisStream` sends and receives the encrypted bytes.

internal import CTLS
internal import Sockets
internal import Synchronization

#if canImport(Glibc)
    internal import Glibc
#elseif canImport(Darwin)
    internal import Darwin
#endif

/// The certificates of a `rediss://` URL.
final class RedisTLS: Hashable, Sendable {
    /// The paths of PEM files. The certificates in `ca` are trusted instead of the system's. If Redis has the setting
    /// `tls-auth-clients`, `certificate` and `key` identify this client.
    let ca: String?
    let certificate: String?
    let key: String?
    /// The OpenSSL context with the contents of the PEM files. Each session holds a reference to the context. OpenSSL
    /// therefore frees a released context only when no session uses it any more.
    private let context = Mutex<OwnedContext?>(nil)

    private struct OwnedContext: @unchecked Sendable {
        // Safe to share: used only under the lock of `context`.
        let pointer: OpaquePointer
        /// The state of the three files before they were read.
        let files: [FileState?]
    }

    /// Attributes that change when the file is replaced or rewritten.
    private struct FileState: Hashable, Sendable {
        let device: UInt64
        let inode: UInt64
        let bytes: Int64
        let modifiedSeconds: Int
        let modifiedNanoseconds: Int

        init?(_ path: String) {
            var status = stat()
            guard stat(path, &status) == 0 else { return nil }
            #if canImport(Darwin)
                let modified = status.st_mtimespec
            #else
                let modified = status.st_mtim
            #endif
            device = UInt64(truncatingIfNeeded: status.st_dev)
            inode = UInt64(status.st_ino)
            bytes = Int64(status.st_size)
            modifiedSeconds = Int(modified.tv_sec)
            modifiedNanoseconds = Int(modified.tv_nsec)
        }
    }

    init(ca: String?, certificate: String?, key: String?) {
        self.ca = ca
        self.certificate = certificate
        self.key = key
    }

    deinit {
        if let context = context.withLock({ $0 }) { tls_context_free(context.pointer) }
    }

    static func == (left: RedisTLS, right: RedisTLS) -> Bool {
        left.ca == right.ca && left.certificate == right.certificate && left.key == right.key
    }

    func hash(into hasher: inout Hasher) {
        hasher.combine(ca)
        hasher.combine(certificate)
        hasher.combine(key)
    }

    /// Creates the TLS session of a connection to `host`. The server's certificate must contain `host`. The PEM files
    /// are read by the first call, and again after one of them has changed.
    ///
    /// Throws `.certificateFiles` if the PEM files cannot be used. Changes of the system's certificates are not
    /// noticed.
    func session(host: String) throws(RedisFailure) -> RedisTLSSession {
        let files = [ca, certificate, key].map { path in path.flatMap { FileState($0) } }
        return try context.withLock { context throws(RedisFailure) -> RedisTLSSession in
            if context?.files != files {
                guard let pointer = tls_context_create(ca, certificate, key) else { throw .certificateFiles }
                if let context { tls_context_free(context.pointer) }
                context = OwnedContext(pointer: pointer, files: files)
            }
            guard let context, let session = tls_session_create(context.pointer, host, IPAddress(host) != nil) else {
                throw .tls
            }
            return RedisTLSSession(session)
        }
    }
}

/// The TLS session of one connection. The reading task and the writing task may call it at the same time, because a
/// lock serializes the calls.
final class RedisTLSSession: Sendable {
    private struct Owned: @unchecked Sendable {
        // Safe to share: used only under the lock of `session`.
        let pointer: OpaquePointer
    }

    private let session: Mutex<Owned>
    /// The maximum content of a TLS record (RFC 8446 section 5.1).
    private static let recordBytesMax = 16 * 1024

    fileprivate init(_ pointer: OpaquePointer) {
        session = Mutex(Owned(pointer: pointer))
    }

    deinit {
        session.withLock { tls_session_free($0.pointer) }
    }

    /// Continues the handshake. Returns whether it is complete, and the bytes to send.
    func handshake() throws(RedisFailure) -> (isComplete: Bool, bytes: [UInt8]) {
        let (result, bytes) = session.withLock { owned in
            let result = tls_handshake(owned.pointer)
            return (result, Self.take(owned))
        }
        switch result {
        case TLS_DONE: return (true, bytes)
        case TLS_WANTS_BYTES: return (false, bytes)
        case TLS_UNTRUSTED: throw .untrusted
        default: throw .tls
        }
    }

    /// Adds bytes from the peer.
    func receive(_ bytes: UnsafeRawBufferPointer) throws(RedisFailure) {
        guard let start = bytes.baseAddress, !bytes.isEmpty else { return }
        let isReceived = session.withLock { tls_receive($0.pointer, start, bytes.count) }
        if !isReceived { throw .tls }
    }

    /// Decrypts all complete records. `isEnd` is true if the peer ended the TLS session after these records.
    func decrypted() throws(RedisFailure) -> (bytes: [UInt8], isEnd: Bool) {
        let (result, content) = session.withLock { owned -> (tls_result, [UInt8]) in
            var content: [UInt8] = []
            while true {
                var count = 0
                var result = TLS_FAILED
                let record = [UInt8](unsafeUninitializedCapacity: Self.recordBytesMax) { buffer, initialized in
                    guard let start = buffer.baseAddress else { return }
                    result = tls_read(owned.pointer, start, buffer.count, &count)
                    initialized = count
                }
                if result != TLS_DONE { return (result, content) }
                content += record
            }
        }
        switch result {
        case TLS_WANTS_BYTES: return (content, false)
        case TLS_ENDED: return (content, true)
        default: throw .tls
        }
    }

    /// Encrypts the bytes. Returns the bytes to send.
    func encrypted(_ bytes: [UInt8]) throws(RedisFailure) -> [UInt8] {
        let (result, records) = session.withLock { owned in
            let result = bytes.withUnsafeBytes { buffer in
                buffer.baseAddress.map { tls_write(owned.pointer, $0, buffer.count) } ?? TLS_DONE
            }
            return (result, Self.take(owned))
        }
        guard result == TLS_DONE else { throw .tls }
        return records
    }

    private static func take(_ owned: Owned) -> [UInt8] {
        var bytes: [UInt8] = []
        while true {
            let part = [UInt8](unsafeUninitializedCapacity: recordBytesMax + 512) { buffer, initialized in
                initialized = buffer.baseAddress.map { tls_take(owned.pointer, $0, buffer.count) } ?? 0
            }
            if part.isEmpty { return bytes }
            bytes += part
        }
    }
}
