// Limits how many refused events, repeats, unreadable bodies and excess bytes a driver may send.
//
// The rate limits on events count only accepted events, so refused events would be free without this limit. A body of
// one kilobyte can contain five hundred refused events.

package import JourneyModel

package struct RefusalLimit: Sendable {
    /// The size of the longest event, with all members and 8 KiB of metadata. A body may have this many bytes per
    /// event. Each KiB above the resulting length costs one charge.
    static let bytesPerEvent = 10 * 1024

    /// The number of repeats in one body that cost one charge together. The rate limits on events do not count repeats,
    /// and a body can contain five hundred repeats.
    static let repeatsPerCharge = 10

    private let admission: any Admission

    package init(admission: any Admission) {
        self.admission = admission
    }

    /// If the driver has used up the limit on refusals, returns the exhausted quota; otherwise nil. Called before a
    /// request's body is read.
    package func exhausted(by driver: DriverID) -> Quota? {
        let quota = admission.quota(of: driver, in: .refusals)
        return quota.isExhausted ? quota : nil
    }

    /// Charges a body for its refused events, repeats and excess bytes.
    ///
    /// Usually called twice for a body. The first call charges the excess bytes as soon as the body is decoded, before
    /// the client sends more bodies. The second call charges the refused events and the repeats, after all events were
    /// processed.
    ///
    /// - Parameters:
    ///   - bytes: the length of the decompressed body.
    ///   - events: the number of events in the body; 1 when the body was refused as a whole.
    ///   - refused: the number of refused events.
    ///   - repeats: the number of events that were already stored.
    package func charge(_ driver: DriverID, bytes: Int = 0, events: Int = 0, refused: Int = 0, repeats: Int = 0) {
        let excess = max(0, bytes - events * Self.bytesPerEvent)
        let count = refused + repeats / Self.repeatsPerCharge + (excess + 1023) / 1024
        guard count > 0 else { return }
        admission.charge(.ofOneRequest(.refusals, by: driver), times: count)
    }
}
