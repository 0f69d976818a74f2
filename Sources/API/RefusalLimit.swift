// The limit on refused events: invalid ones, those over a limit, bodies that cannot be read, and bytes that no event
// needs. An accepted event pays for itself; without this limit the others would be free, and a kilobyte can hold five
// hundred of them.

import Engine
import Identity
import JourneyModel

struct RefusalLimit: Sendable {
    /// The longest event: all members, metadata of 8 KiB. Each KiB that a body has beyond this for each event is charged.
    static let bytesPerEvent = 10 * 1024

    let admission: any Admission

    /// The answer to a driver whose window is full, before the body is read; nil while there is room.
    func answer(to driver: DriverID) -> ProblemAnswer? {
        let quota = admission.standing(of: driver, in: .refusals)
        return quota.limit > 0 && quota.remaining == 0 ? .tooManyRefusals(quota) : nil
    }

    /// Charges what a body cost beyond its accepted events.
    ///
    /// - Parameters:
    ///   - bytes: of the body, decompressed.
    ///   - events: in the body; 0 when it was refused as a whole.
    ///   - refused: of these.
    func charge(_ driver: DriverID, bytes: Int, events: Int, refused: Int) {
        let excess = max(0, bytes - events * Self.bytesPerEvent)
        let count = refused + (excess + 1023) / 1024
        guard count > 0 else { return }
        admission.charge(
            AdmissionClaim(driver: driver, limitClass: .refusals, idempotencyKey: AdmissionClaim.keyOfOneRequest()),
            times: count)
    }
}

extension ProblemAnswer {
    fileprivate static func tooManyRefusals(_ quota: Quota) -> ProblemAnswer {
        let seconds = RateLimitFields.retryAfterSeconds(quota)
        return ProblemAnswer(
            .rateLimited, "Too many refused events in \(quota.windowSeconds) seconds. Send again in \(seconds) s.",
            retryAfterSeconds: seconds)
    }
}
