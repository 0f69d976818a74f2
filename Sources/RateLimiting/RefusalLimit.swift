// The limit on refused events, repeats, unreadable bodies and excess bytes. An event is refused if it is invalid, if
// its sender has reached a rate limit, or if the store refuses it.
//
// The rate limit classes of events count only accepted events. Without this limit, refused events would therefore be
// free. A body of one kilobyte can contain five hundred of them.

package import JourneyModel

package struct RefusalLimit: Sendable {
    /// The size in bytes of the longest event, with all members and 8 KiB of metadata. The allowed length of a body is
    /// this size times the number of its events. Each KiB beyond that length is charged.
    static let bytesPerEvent = 10 * 1024

    /// This number of repeats in one body costs as much as one refused event. Repeats are charged here because the
    /// classes of events do not count them. A body can contain five hundred repeats.
    static let repeatsPerCharge = 10

    private let admission: any Admission

    package init(admission: any Admission) {
        self.admission = admission
    }

    /// Returns the driver's quota if the driver's window of refusals is full, otherwise nil. Called before the body of
    /// a request is read.
    package func exhausted(by driver: DriverID) -> Quota? {
        let quota = admission.quota(of: driver, in: .refusals)
        return quota.isExhausted ? quota : nil
    }

    /// Charges a body for its refused events, repeats and excess bytes.
    ///
    /// Usually called twice for a body. The first call charges the excess bytes as soon as the body is decoded, so a
    /// client is charged before it sends more bodies. The second call charges the refused events and the repeats, after
    /// the events were processed.
    ///
    /// - Parameters:
    ///   - bytes: the length of the decompressed body.
    ///   - events: the number of events in the body; 1 when the body was refused as a whole.
    ///   - refused: the number of refused events.
    ///   - repeats: the number of events that were stored before.
    package func charge(_ driver: DriverID, bytes: Int = 0, events: Int = 0, refused: Int = 0, repeats: Int = 0) {
        let excess = max(0, bytes - events * Self.bytesPerEvent)
        let count = refused + repeats / Self.repeatsPerCharge + (excess + 1023) / 1024
        guard count > 0 else { return }
        admission.charge(.ofOneRequest(.refusals, by: driver), times: count)
    }
}
