// Everything held about a driver, in pieces, because it may be much; and who is being given it.

import JourneyModel
import Synchronization

/// Some of a JSON document (UTF-8), and how to get at the rest. All pieces together are the document.
package struct ExportPiece: Sendable {
    package typealias Rest = @Sendable () async throws(AccountFailure) -> ExportPiece

    /// A few hundred KiB.
    package var json: [UInt8]
    /// Reads the next piece; nil when this is the last. Each piece is a read of its own, so that nobody who reads slowly
    /// keeps the WAL from being emptied: what is stored meanwhile may be in the document. `unauthorized` once the driver
    /// was deleted: the document cannot be ended then.
    package var rest: Rest?

    package init(json: [UInt8], rest: Rest?) {
        self.json = json
        self.rest = rest
    }
}

/// The drivers who are given an export: each one at a time, since each costs reads for as long as it takes. Counted in
/// this process only.
final class ExportPlaces: Sendable {
    /// Most exports take less.
    static let retryAfterSeconds: Int64 = 10

    private let drivers = Mutex<Set<DriverID>>([])

    /// - Throws: `exportUnderWay` when the driver has one.
    func take(_ driver: DriverID) throws(AccountFailure) -> ExportPlace {
        guard drivers.withLock({ $0.insert(driver).inserted }) else {
            throw .exportUnderWay(retryAfterSeconds: Self.retryAfterSeconds)
        }
        return ExportPlace { [self] in _ = drivers.withLock { $0.remove(driver) } }
    }
}

/// A driver's place, given back when nobody holds it any more: a reader that stops does not say so.
final class ExportPlace: Sendable {
    private let giveBack: @Sendable () -> Void

    fileprivate init(giveBack: @escaping @Sendable () -> Void) {
        self.giveBack = giveBack
    }

    deinit { giveBack() }

    /// The same piece, which has the place for as long as there is a rest.
    func holding(while piece: ExportPiece) -> ExportPiece {
        guard let rest = piece.rest else { return piece }
        return ExportPiece(json: piece.json) { () async throws(AccountFailure) in
            self.holding(while: try await rest())
        }
    }
}
