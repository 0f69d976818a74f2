// The limit on refused events: invalid ones, those over a limit, unreadable bodies, and excess bytes. An accepted
// event is charged itself; without this limit the others would be free, and a kilobyte can contain five hundred of
// them.

package import JourneyModel

package struct RefusalLimit: Sendable {
    /// The size of the longest event: all members, metadata of 8 KiB. Each KiB of a body beyond this size per event
    /// is charged.
    static let bytesPerEvent = 10 * 1024

    /// Repeats in one body that are charged as one refused event. A repeat is free otherwise, and a body can contain
    /// five hundred; alone it costs no more than a refusal.
    static let repeatsPerCharge = 10

    private let admission: any Admission

    package init(admission: any Admission) {
        self.admission = admission
    }

    /// The quota of a driver whose window is full, before the body is read; nil while there is room.
    package func exhausted(by driver: DriverID) -> Quota? {
        let quota = admission.quota(of: driver, in: .refusals)
        return quota.limit > 0 && quota.remaining == 0 ? quota : nil
    }

    /// Charges the cost of a body beyond its accepted events.
    ///
    /// - Parameters:
    ///   - bytes: of the body, decompressed.
    ///   - events: in the body; 0 when it was refused as a whole.
    ///   - refused: how many of these were refused.
    ///   - repeats: how many of these were stored before.
    package func charge(_ driver: DriverID, bytes: Int, events: Int, refused: Int, repeats: Int = 0) {
        let excess = max(0, bytes - events * Self.bytesPerEvent)
        let count = refused + repeats / Self.repeatsPerCharge + (excess + 1023) / 1024
        guard count > 0 else { return }
        admission.charge(.ofOneRequest(.refusals, by: driver), times: count)
    }
}
