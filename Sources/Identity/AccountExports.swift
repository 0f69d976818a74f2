// Exports all data stored about a driver. The JSON document may be large, so it is read and sent in pieces.

import JourneyModel
import Synchronization

/// One piece of a JSON document (UTF-8). All pieces joined are the document.
package struct ExportPiece: Sendable {
    package typealias Rest = @Sendable () async throws(AccountFailure) -> ExportPiece

    /// The bytes of this piece, a few hundred KiB.
    package var json: [UInt8]
    /// Reads the next piece. Nil if this piece is the last.
    ///
    /// Each piece is read in its own transaction, so the document may include data that was stored during the export. A
    /// single transaction would stay open as long as a slow client reads. SQLite could then not truncate its WAL.
    ///
    /// Throws `unauthorized` if the driver was deleted during the export.
    package var rest: Rest?

    package init(json: [UInt8], rest: Rest?) {
        self.json = json
        self.rest = rest
    }
}

/// The drivers that have an export in progress in this process. A driver may have only one export at a time, because
/// each export keeps reading from the store until it ends.
final class ExportSlots: Sendable {
    /// The `Retry-After` of a refused export. Most exports take less time than this.
    static let retryAfterSeconds: Int64 = 10

    private let drivers = Mutex<Set<DriverID>>([])

    /// Takes the driver's slot. The slot becomes free when the returned object is deallocated.
    ///
    /// - Throws: `exportUnderWay` when the driver already has an export in progress.
    func take(_ driver: DriverID) throws(AccountFailure) -> ExportSlot {
        guard drivers.withLock({ $0.insert(driver).inserted }) else {
            throw .exportUnderWay(retryAfterSeconds: Self.retryAfterSeconds)
        }
        return ExportSlot { [self] in _ = drivers.withLock { $0.remove(driver) } }
    }
}

/// The slot of one export in progress. `deinit` frees it, because a client may stop reading without notice.
final class ExportSlot: Sendable {
    private let release: @Sendable () -> Void

    fileprivate init(release: @escaping @Sendable () -> Void) {
        self.release = release
    }

    deinit { release() }

    /// Wraps `rest`, so that this slot stays taken until the last piece was read.
    func holding(while piece: ExportPiece) -> ExportPiece {
        guard let rest = piece.rest else { return piece }
        return ExportPiece(json: piece.json) { () async throws(AccountFailure) in
            self.holding(while: try await rest())
        }
    }
}
