// Export of all data held about a driver, in pieces because it may be large, and the limit of one export at a time.

import JourneyModel
import Synchronization

/// A piece of a JSON document (UTF-8), and how to read the rest. All pieces together are the document.
package struct ExportPiece: Sendable {
    package typealias Rest = @Sendable () async throws(AccountFailure) -> ExportPiece

    /// A few hundred KiB.
    package var json: [UInt8]
    /// Reads the next piece; nil when this is the last. Each piece is a separate read, so that a slow client does
    /// not keep the WAL from being truncated; the document may include what is stored meanwhile. Throws
    /// `unauthorized` once the driver is deleted: the document cannot be completed then.
    package var rest: Rest?

    package init(json: [UInt8], rest: Rest?) {
        self.json = json
        self.rest = rest
    }
}

/// The drivers with an export in progress: one each at a time, since an export costs reads throughout. Counted per
/// process.
final class ExportSlots: Sendable {
    /// Most exports take less.
    static let retryAfterSeconds: Int64 = 10

    private let drivers = Mutex<Set<DriverID>>([])

    /// - Throws: `exportUnderWay` when the driver has an export in progress.
    func take(_ driver: DriverID) throws(AccountFailure) -> ExportSlot {
        guard drivers.withLock({ $0.insert(driver).inserted }) else {
            throw .exportUnderWay(retryAfterSeconds: Self.retryAfterSeconds)
        }
        return ExportSlot { [self] in _ = drivers.withLock { $0.remove(driver) } }
    }
}

/// A driver's slot, released on deinit: a client that stops reading does not say so.
final class ExportSlot: Sendable {
    private let giveBack: @Sendable () -> Void

    fileprivate init(giveBack: @escaping @Sendable () -> Void) {
        self.giveBack = giveBack
    }

    deinit { giveBack() }

    /// The same piece, which holds the slot while there is more to read.
    func holding(while piece: ExportPiece) -> ExportPiece {
        guard let rest = piece.rest else { return piece }
        return ExportPiece(json: piece.json) { () async throws(AccountFailure) in
            self.holding(while: try await rest())
        }
    }
}
