// A VFS for SQLite (https://www.sqlite.org/vfs.html) in which the n-th write or sync of a file in a chosen directory
// fails. Files elsewhere, and other tests, are not affected.

import Foundation
import GRDBSQLite
import Synchronization
import Testing

@testable import SQLiteStore

/// The scripted faults of one database's files.
final class FaultScript: Sendable {
    enum Fault: Sendable, CaseIterable {
        /// Half of the bytes are written, then the disk is full.
        case diskFull
        case writeError
        case syncError
    }

    private struct State {
        var fault: Fault?
        var operationsBefore = 0
        var failuresLeft = 0
        var hasFailed = false
        var writeCount = 0
    }

    private let state = Mutex(State())

    /// Whether a fault happened since the script was last armed.
    var hasFailed: Bool { state.withLock { $0.hasFailed } }

    /// The number of writes to all files since the script was last armed.
    var writeCount: Int { state.withLock { $0.writeCount } }

    /// Lets `operationsBefore` operations of the fault's kind succeed, then fails the next `failureCount` of them.
    func arm(_ fault: Fault, after operationsBefore: Int, failureCount: Int) {
        state.withLock {
            $0 = State(fault: fault, operationsBefore: operationsBefore, failuresLeft: failureCount, hasFailed: false)
        }
    }

    func disarm() {
        state.withLock { $0.failuresLeft = 0 }
    }

    fileprivate func next(isSync: Bool) -> Fault? {
        state.withLock { state in
            if !isSync { state.writeCount += 1 }
            guard let fault = state.fault, state.failuresLeft > 0, isSync == (fault == .syncError) else { return nil }
            if state.operationsBefore > 0 {
                state.operationsBefore -= 1
                return nil
            }
            state.failuresLeft -= 1
            state.hasFailed = true
            return fault
        }
    }
}

enum FaultyFileSystem {
    /// Applies the script to every file that SQLite opens under `folder` from now on.
    static func watch(_ folder: String, _ script: FaultScript) throws {
        try #require(isRegistered, "SQLite has no default file system to stand before")
        state.withLock { $0.scripts[folder] = script }
    }

    private static let isRegistered: Bool = {
        // SQLite accepts process-wide options only before its first use, and sqlite3_vfs_find counts as a use. The
        // options are therefore set first.
        _ = DatabaseOpening.isConfigured
        guard let original = sqlite3_vfs_find(nil) else { return false }
        let copy = UnsafeMutablePointer<sqlite3_vfs>.allocate(capacity: 1)
        copy.initialize(to: original.pointee)
        copy.pointee.zName = UnsafePointer(strdup("faulty"))
        copy.pointee.xOpen = openFile
        state.withLock { $0.original = UInt(bitPattern: original) }
        return sqlite3_vfs_register(copy, 1) == SQLITE_OK
    }()

    /// Addresses are stored as numbers, because pointers are not Sendable. Except for the addresses of files, all
    /// addresses stay valid until the process ends.
    ///
    /// A new file may get the address of a closed file. SQLite's first call for the new file is `openFile`, which
    /// replaces the entries for this address.
    fileprivate struct State: Sendable {
        var original: UInt = 0
        var scripts: [String: FaultScript] = [:]
        var files: [UInt: FaultScript] = [:]
        /// Key: the address of a table of SQLite's own methods. Value: the address of its copy with the faulty methods.
        var faultyMethods: [UInt: UInt] = [:]
        /// Key: the address of a file. Value: the address of its table of original methods. The file may no longer
        /// refer to this table, because another layer of SQLite's VFS may have replaced its methods.
        var originalMethods: [UInt: UInt] = [:]
    }

    fileprivate static let state = Mutex(State())
}

private typealias File = UnsafeMutablePointer<sqlite3_file>
private typealias Methods = UnsafePointer<sqlite3_io_methods>

private func openFile(
    _: UnsafeMutablePointer<sqlite3_vfs>?, name: UnsafePointer<CChar>?, file: File?, flags: Int32,
    outFlags: UnsafeMutablePointer<Int32>?
) -> Int32 {
    let original = FaultyFileSystem.state.withLock { $0.original }
    guard let file, let vfs = UnsafeMutablePointer<sqlite3_vfs>(bitPattern: original) else { return SQLITE_CANTOPEN }
    let code = vfs.pointee.xOpen(vfs, name, file, flags, outFlags)
    let path = name.map { String(cString: $0) } ?? ""
    let script = FaultyFileSystem.state.withLock { state in
        let script = state.scripts.first { path.hasPrefix($0.key) }?.value
        state.files[UInt(bitPattern: file)] = script
        return script
    }
    if code == SQLITE_OK, script != nil, let methods = file.pointee.pMethods {
        FaultyFileSystem.state.withLock { $0.originalMethods[UInt(bitPattern: file)] = UInt(bitPattern: methods) }
        file.pointee.pMethods = faulty(methods)
    }
    return code
}

private func faulty(_ methods: Methods) -> Methods? {
    let address = FaultyFileSystem.state.withLock { state in
        if let known = state.faultyMethods[UInt(bitPattern: methods)] { return known }
        let copy = UnsafeMutablePointer<sqlite3_io_methods>.allocate(capacity: 1)
        copy.initialize(to: methods.pointee)
        copy.pointee.xWrite = writeFile
        copy.pointee.xSync = syncFile
        state.faultyMethods[UInt(bitPattern: methods)] = UInt(bitPattern: copy)
        return UInt(bitPattern: copy)
    }
    return Methods(bitPattern: address)
}

/// Returns SQLite's own methods for the file, and the fault of this operation. The fault is nil if the operation is to
/// succeed.
private func next(_ file: File, isSync: Bool) -> (fault: FaultScript.Fault?, methods: Methods?) {
    let address = UInt(bitPattern: file)
    let (script, original) = FaultyFileSystem.state.withLock { ($0.files[address], $0.originalMethods[address]) }
    return (script?.next(isSync: isSync), original.flatMap { Methods(bitPattern: $0) })
}

private func writeFile(file: File?, bytes: UnsafeRawPointer?, count: Int32, offset: sqlite3_int64) -> Int32 {
    guard let file else { return SQLITE_IOERR }
    let (fault, methods) = next(file, isSync: false)
    guard let methods else { return SQLITE_IOERR }
    switch fault {
    case nil: return methods.pointee.xWrite(file, bytes, count, offset)
    case .diskFull:
        _ = methods.pointee.xWrite(file, bytes, count / 2, offset)
        return SQLITE_FULL
    case .writeError, .syncError: return SQLITE_IOERR | (3 << 8)
    }
}

private func syncFile(file: File?, flags: Int32) -> Int32 {
    guard let file else { return SQLITE_IOERR }
    let (fault, methods) = next(file, isSync: true)
    guard let methods else { return SQLITE_IOERR }
    return fault == nil ? methods.pointee.xSync(file, flags) : SQLITE_IOERR | (4 << 8)
}
