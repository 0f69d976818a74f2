// Exports all data stored about a driver. The JSON document may be large, so it is read and sent in pieces. A driver
// can have only one export in progress.

import JourneyModel
import Synchronization

/// A piece of a JSON document (UTF-8), and a closure that reads the next piece. The document consists of all its
/// pieces, joined together.
package struct ExportPiece: Sendable {
    package typealias Rest = @Sendable () async throws(AccountFailure) -> ExportPiece

    /// The bytes of this piece, a few hundred KiB.
    package var json: [UInt8]
    /// The closure that reads the piece after this one; nil if this piece is the last.
    ///
    /// Each piece is read in its own transaction, so the document may include data that was stored during the export.
    /// With one transaction for all pieces, a slow client would keep that transaction open, and SQLite could not
    /// truncate its WAL.
    ///
    /// The closure throws `unauthorized` if the driver was deleted in the meantime, because the document can no longer
    /// be completed.
    package var rest: Rest?

    package init(json: [UInt8], rest: Rest?) {
        self.json = json
        self.rest = rest
    }
}

/// The drivers that have an export in progress in this process. An export reads from the store for as long as it runs,
/// so each driver may have only one at a time.
final class ExportSlots: Sendable {
    /// The `Retry-After` of a refused export. Most exports take less time than this.
    static let retryAfterSeconds: Int64 = 10

    private let drivers = Mutex<Set<DriverID>>([])

    /// Takes the driver's slot. The slot is free again when the returned object is released.
    ///
    /// - Throws: `exportUnderWay` when the driver already has an export in progress.
    func take(_ driver: DriverID) throws(AccountFailure) -> ExportSlot {
        guard drivers.withLock({ $0.insert(driver).inserted }) else {
            throw .exportUnderWay(retryAfterSeconds: Self.retryAfterSeconds)
        }
        return ExportSlot { [self] in _ = drivers.withLock { $0.remove(driver) } }
    }
}

/// A driver's slot, held while the driver's export is in progress. The slot is released by deinit, because a client may
/// stop reading without notice.
final class ExportSlot: Sendable {
    private let release: @Sendable () -> Void

    fileprivate init(release: @escaping @Sendable () -> Void) {
        self.release = release
    }

    deinit { release() }

    /// Returns the same piece with a `rest` that keeps this slot taken until the last piece was read.
    func holding(while piece: ExportPiece) -> ExportPiece {
        guard let rest = piece.rest else { return piece }
        return ExportPiece(json: piece.json) { () async throws(AccountFailure) in
            self.holding(while: try await rest())
        }
    }
}
