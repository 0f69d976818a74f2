// The current time by the system's clock. Commands use it directly, and the server's services get it as a closure.

import JourneyModel
import StructuredLogging

extension Moment {
    static var now: Moment { Moment(millisecondsSinceEpoch: millisecondsSince1970()) }
}
