// The current time by the system's clock, for the commands and for the clocks that the wiring passes to the services.

import JourneyModel
import StructuredLogging

extension Moment {
    static var now: Moment { Moment(millisecondsSinceEpoch: millisecondsSince1970()) }
}
