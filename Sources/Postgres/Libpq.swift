// Wrappers of libpq's two objects, a connection and a result. All calls of libpq are here, except for the URL parser in
// PostgresConfiguration.swift. Only `connect` blocks.

internal import CPostgres

#if canImport(Glibc)
    internal import Glibc
#endif

/// A connection of libpq. `@unchecked Sendable` is safe because only one thread at a time uses the PGconn: first the
/// thread that connects, later one event loop.
final class LibpqConnection: @unchecked Sendable {
    private var connection: OpaquePointer?
    /// Whether the server has reported that it stopped waiting for its standby during a COMMIT. The transaction is then
    /// committed on the primary, but perhaps not on the standby.
    private(set) var isCommitUnconfirmed = false

    private init(_ connection: OpaquePointer) {
        self.connection = connection
        // Without a notice receiver, libpq prints notices to stderr.
        PQsetNoticeReceiver(connection, receiveNotice, Unmanaged.passUnretained(self).toOpaque())
    }

    deinit {
        finish()
    }

    /// Connects to the first usable host. Blocks until the connection is made or every host has failed, so it must not
    /// run on an event loop. libpq tries each address of a host for `connect_timeout` seconds. Name lookups may take
    /// longer.
    ///
    /// PQconnectPoll, which does not block, is not used, because it ignores `connect_timeout`. If the first host did
    /// not answer, it would never try the second.
    ///
    /// - Throws: libpq's message, which may contain host names, the user and the database.
    static func connect(_ parameters: [String: String]) throws(LibpqFailure) -> LibpqConnection {
        let keywords = CStrings(Array(parameters.keys))
        let values = CStrings(Array(parameters.values))
        let connection = withExtendedLifetime((keywords, values)) {
            PQconnectdbParams(keywords.pointers, values.pointers, 0)
        }
        guard let connection else { throw LibpqFailure("no memory") }
        let made = LibpqConnection(connection)
        guard PQstatus(connection) == CONNECTION_OK else { throw made.failure }
        guard PQsetnonblocking(connection, 1) == 0, PQenterPipelineMode(connection) == 1 else { throw made.failure }
        return made
    }

    /// Closes the connection. A second call does nothing.
    func finish() {
        if let connection { PQfinish(connection) }
        connection = nil
    }

    /// Whether the connection is encrypted. If so, OpenSSL may hold bytes that it has already read from the socket.
    var isEncrypted: Bool { PQsslInUse(connection) == 1 }

    /// The descriptor of the socket, or -1 if libpq has closed the socket. The descriptor does not change while the
    /// connection lasts.
    var descriptor: Int32 { connection.map { PQsocket($0) } ?? -1 }

    /// libpq's last message for this connection.
    var failure: LibpqFailure {
        LibpqFailure(connection.flatMap { PQerrorMessage($0) }.map { String(cString: $0) } ?? "closed")
    }

    // MARK: - Sending

    // Each function in this section returns false if libpq reports an error. libpq copies the values that are passed to
    // it.

    func sendPrepare(_ name: String, _ sql: String, _ types: [PostgresType]) -> Bool {
        PQsendPrepare(connection, name, sql, Int32(types.count), types.map { Oid($0.rawValue) }) == 1
    }

    /// The parameters and the result are in binary form.
    func sendQuery(_ name: String, _ parameters: EncodedParameters) -> Bool {
        parameters.bytes.withUnsafeBytes { bytes in
            let values = parameters.ranges.map { range in
                range.flatMap { bytes.baseAddress?.advanced(by: $0.lowerBound).assumingMemoryBound(to: CChar.self) }
            }
            let lengths = parameters.ranges.map { Int32($0?.count ?? 0) }
            let formats = [Int32](repeating: 1, count: values.count)
            return PQsendQueryPrepared(connection, name, Int32(values.count), values, lengths, formats, 1) == 1
        }
    }

    /// Ends a segment of the pipeline with a Sync message.
    func sendSync() -> Bool {
        PQpipelineSync(connection) == 1
    }

    /// Sends a text of several statements outside pipeline mode. All earlier results must have arrived.
    func sendScript(_ sql: String) -> Bool {
        PQexitPipelineMode(connection) == 1 && PQsendQuery(connection, sql) == 1
    }

    /// Enters pipeline mode again. All results of the script must have arrived.
    func endScript() -> Bool {
        PQenterPipelineMode(connection) == 1
    }

    // MARK: - Input and output

    /// Sends as much as the socket accepts. If output is left, call again when the socket becomes writable. Returns
    /// false if the connection is lost.
    func flush() -> Bool {
        PQflush(connection) >= 0
    }

    /// Reads from the socket. Returns false if the connection is lost.
    func consumeInput() -> Bool {
        PQconsumeInput(connection) == 1
    }

    /// Whether there is more to read from the socket: bytes, the end of the stream or an error. `consumeInput` does not
    /// report this.
    var hasUnreadInput: Bool {
        var byte: UInt8 = 0
        let count = recv(descriptor, &byte, 1, Int32(MSG_PEEK) | Int32(MSG_DONTWAIT))
        return count >= 0 || errno != EAGAIN
    }

    enum NextResult {
        case result(LibpqResult)
        /// The end of the results of one statement.
        case endOfStatement
        /// The next result has not arrived.
        case notYet
    }

    /// Does not block: PQgetResult blocks only while PQisBusy returns 1.
    func nextResult() -> NextResult {
        guard let connection, PQisBusy(connection) == 0 else { return .notYet }
        guard let result = PQgetResult(connection) else { return .endOfStatement }
        return .result(LibpqResult(result))
    }

    // MARK: - The session

    enum TransactionStatus {
        case none, open, failed, unknown
    }

    /// The transaction status that the server sent with its last answer to a Sync (ReadyForQuery). While libpq waits
    /// for further answers, the status is always `open`.
    var transactionStatus: TransactionStatus {
        switch PQtransactionStatus(connection) {
        case PQTRANS_IDLE: .none
        case PQTRANS_INTRANS, PQTRANS_ACTIVE: .open
        case PQTRANS_INERROR: .failed
        default: .unknown
        }
    }

    /// Detects the notice that a COMMIT may not be on the synchronous standby. If a COMMIT is cancelled while it waits
    /// for the standby, it succeeds, and the server only sends a warning.
    ///
    /// Only the name of the server's function (syncrep.c) identifies the warning, because all its other parts may
    /// change.
    fileprivate func received(_ notice: OpaquePointer) {
        if text(notice, DWELL_PG_SOURCE_FUNCTION) == "SyncRepWaitForLSN" { isCommitUnconfirmed = true }
    }
}

/// libpq calls this function while it reads input.
private func receiveNotice(_ owner: UnsafeMutableRawPointer?, _ notice: OpaquePointer?) {
    guard let owner, let notice else { return }
    Unmanaged<LibpqConnection>.fromOpaque(owner).takeUnretainedValue().received(notice)
}

/// A message of libpq, without its line breaks. It may contain host names, the user and the database.
struct LibpqFailure: Error {
    let message: String

    init(_ message: String) {
        self.message = message.split(whereSeparator: \.isNewline)
            .map { $0.trimmingPrefix(while: \.isWhitespace) }.joined(separator: "; ")
    }
}

/// A result of libpq. Safe to share: a PGresult never changes after libpq has returned it (libpq's manual, "Behavior in
/// Threaded Programs").
final class LibpqResult: @unchecked Sendable {
    private let result: OpaquePointer

    fileprivate init(_ result: OpaquePointer) {
        self.result = result
    }

    deinit {
        PQclear(result)
    }

    enum Status {
        case success, error, aborted, sync, unexpected
    }

    var status: Status {
        switch PQresultStatus(result) {
        case PGRES_COMMAND_OK, PGRES_TUPLES_OK, PGRES_EMPTY_QUERY: .success
        case PGRES_FATAL_ERROR: .error
        case PGRES_PIPELINE_ABORTED: .aborted
        case PGRES_PIPELINE_SYNC: .sync
        default: .unexpected
        }
    }

    // MARK: - Rows

    var rowCount: Int { Int(PQntuples(result)) }
    var columnCount: Int { Int(PQnfields(result)) }
    var affectedCount: Int { Int(String(cString: PQcmdTuples(result))) ?? 0 }
    /// The command as the server names it, for example "INSERT 0 1" or "ROLLBACK".
    var command: String { String(cString: PQcmdStatus(result)) }

    // libpq checks the row and the column, and returns a default value if they are out of range.

    func type(_ column: Int) -> PostgresType { PostgresType(rawValue: PQftype(result, Int32(column))) }
    func isNull(_ row: Int, _ column: Int) -> Bool { PQgetisnull(result, Int32(row), Int32(column)) == 1 }

    /// Passes the bytes of the value to `body`. The bytes are valid only until `body` returns.
    func withBytes<Answer>(_ row: Int, _ column: Int, _ body: (UnsafeRawBufferPointer) -> Answer) -> Answer {
        let length = Int(PQgetlength(result, Int32(row), Int32(column)))
        let start = PQgetvalue(result, Int32(row), Int32(column))
        return withExtendedLifetime(self) { body(UnsafeRawBufferPointer(start: start, count: length)) }
    }

    // MARK: - Errors

    /// The SQLSTATE; nil if libpq itself reports the error, because the connection is lost.
    var sqlState: String? { text(result, DWELL_PG_SQLSTATE) }
    /// Whether the session has ended. The severity is then FATAL or PANIC, or nil for an error of libpq itself.
    var endsSession: Bool { text(result, DWELL_PG_SEVERITY) != "ERROR" }
    var message: String? { text(result, DWELL_PG_MESSAGE) }
    var constraint: String? { text(result, DWELL_PG_CONSTRAINT) }
}

private func text(_ result: OpaquePointer, _ field: Int) -> String? {
    PQresultErrorField(result, Int32(field)).map { String(cString: $0) }
}

/// An array of C strings that ends with a null pointer.
private final class CStrings {
    let pointers: [UnsafePointer<CChar>?]
    private let copies: [UnsafeMutablePointer<CChar>?]

    init(_ strings: [String]) {
        copies = strings.map { strdup($0) }
        pointers = copies.map { $0.map { UnsafePointer($0) } } + [nil]
    }

    deinit {
        for copy in copies { free(copy) }
    }
}
