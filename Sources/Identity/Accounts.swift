// Reads, changes, exports and deletes a driver's own account, stores the driver's devices, and processes Apple's server
// notifications about the account.

package import JourneyModel

package struct Accounts: AccountService, AppleNotificationService {
    private let store: any AccountRecordStore
    private let memory: SessionStatusCache
    private let exports = ExportSlots()
    private let forget: @Sendable (DriverID) async -> Void

    /// - Parameter forget: removes the data that other components store under the id of a deleted driver. Must not
    ///   fail, and must finish within the time limit of a request.
    package init(
        store: any AccountRecordStore, memory: SessionStatusCache,
        forget: @escaping @Sendable (DriverID) async -> Void = { _ in }
    ) {
        self.store = store
        self.memory = memory
        self.forget = forget
    }

    package func user(of caller: Caller) async throws(AccountFailure) -> User {
        try await store.user(caller.driver) ?? User(id: caller.driver, role: caller.role)
    }

    package func change(
        _ change: ProfileChange, of caller: Caller, from origin: RequestOrigin
    ) async throws(AccountFailure) -> User {
        var errors: [FieldError] = []
        if case .set(let name?) = change.name, !AccountRules.acceptsName(name) {
            errors.append(
                FieldError(
                    pointer: "/name",
                    detail: "must be 1 to \(AccountRules.nameLengthMax) characters without control characters, or null")
            )
        }
        if case .set(let email?) = change.email, !AccountRules.acceptsEmail(email) {
            errors.append(FieldError(pointer: "/email", detail: "must be an email address, or null"))
        }
        guard errors.isEmpty else { throw .invalid(errors) }
        return try await store.change(change, of: caller, from: origin)
    }

    package func erase(_ caller: Caller, from origin: RequestOrigin) async throws(AccountFailure) -> ErasureReceipt {
        let receipt = Self.receipt(at: origin.at)
        try await store.erase(caller.driver, receipt: receipt, pseudonym: Self.pseudonym(), from: origin)
        await memory.catchUp()
        await forget(caller.driver)
        try await store.completeErasure(of: caller.driver)
        return receipt
    }

    package func export(of caller: Caller, from origin: RequestOrigin) async throws(AccountFailure) -> ExportPiece {
        let slot = try exports.take(caller.driver)
        return slot.holding(while: try await store.export(of: caller, from: origin))
    }

    package func take(_ notice: AppleServerNotification, from origin: RequestOrigin) async throws(AccountFailure) {
        let erased = try await store.take(
            notice, receipt: Self.receipt(at: origin.at), pseudonym: Self.pseudonym(), from: origin)
        await memory.catchUp()
        guard let erased else { return }
        await forget(erased)
        try await store.completeErasure(of: erased)
    }

    package static func receipt(at now: Moment) -> ErasureReceipt {
        ErasureReceipt(id: RandomID.text(prefix: "rcp_"), deletedAt: now)
    }

    /// Returns a random pseudonym. It replaces the driver's id in the rows that remain after a deletion.
    package static func pseudonym() -> String { RandomID.text(prefix: "erased-") }
}

package struct Devices: DeviceService {
    private let store: any DeviceStore

    package init(store: any DeviceStore) {
        self.store = store
    }

    package func put(
        _ device: Device, of caller: Caller, from origin: RequestOrigin
    ) async throws(AccountFailure) -> Bool {
        switch try await store.put(device, of: caller, from: origin) {
        case .added: return true
        case .replaced: return false
        case .sessionEnded: throw .unauthorized
        }
    }

    package func remove(
        pushToken: String, of caller: Caller, from origin: RequestOrigin
    ) async throws(AccountFailure) {
        try await store.remove(pushToken: pushToken, of: caller, from: origin)
    }
}
