// Export of all data held about a driver, in pieces because the document may be large. A driver can have only one
// export in progress.

import JourneyModel
import Synchronization

/// A piece of a JSON document (UTF-8), and a closure to read the rest. The document is the pieces joined together.
package struct ExportPiece: Sendable {
    package typealias Rest = @Sendable () async throws(AccountFailure) -> ExportPiece

    /// A few hundred KiB.
    package var json: [UInt8]
    /// Reads the next piece; nil when this is the last. Each piece is a separate read, so that a slow client does not
    /// keep the WAL from being truncated; the document may therefore include data stored during the export. Throws
    /// `unauthorized` once the driver is deleted, because the document cannot be completed then.
    package var rest: Rest?

    package init(json: [UInt8], rest: Rest?) {
        self.json = json
        self.rest = rest
    }
}

/// The drivers with an export in progress, counted per process. One export per driver at a time, because an export
/// reads from the store for as long as it runs.
final class ExportSlots: Sendable {
    /// The `Retry-After` of a refused export. Most exports take less time.
    static let retryAfterSeconds: Int64 = 10

    private let drivers = Mutex<Set<DriverID>>([])

    /// - Throws: `exportUnderWay` when the driver already has an export in progress.
    func take(_ driver: DriverID) throws(AccountFailure) -> ExportSlot {
        guard drivers.withLock({ $0.insert(driver).inserted }) else {
            throw .exportUnderWay(retryAfterSeconds: Self.retryAfterSeconds)
        }
        return ExportSlot { [self] in _ = drivers.withLock { $0.remove(driver) } }
    }
}

/// A driver's slot. Released on deinit, because a client may stop reading without notice.
final class ExportSlot: Sendable {
    private let release: @Sendable () -> Void

    fileprivate init(release: @escaping @Sendable () -> Void) {
        self.release = release
    }

    deinit { release() }

    /// Returns the same piece, with a `rest` that holds the slot until the last piece was read.
    func holding(while piece: ExportPiece) -> ExportPiece {
        guard let rest = piece.rest else { return piece }
        return ExportPiece(json: piece.json) { () async throws(AccountFailure) in
            self.holding(while: try await rest())
        }
    }
}
