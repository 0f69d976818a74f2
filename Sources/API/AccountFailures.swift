// What a client hears of a service of accounts that said no, and what of it goes to the log.

import HTTPServer
import Identity
import JourneyModel
import Logging

struct AccountFailures: Sendable {
    let logger: Logger

    func problem(_ failure: AccountFailure, _ request: Request) -> ProblemAnswer {
        log(failure, request)
        return ProblemAnswer(failure)
    }

    /// The same for a request that only reads.
    func problem(reading failure: AccountFailure, _ request: Request) -> ProblemAnswer {
        log(failure, request)
        switch failure {
        case .unavailable, .unknown, .cancelled: return .accountsUnreadable
        default: return ProblemAnswer(failure)
        }
    }

    func log(_ failure: AccountFailure, _ request: Request) {
        switch failure {
        case .unavailable(let reason), .unknown(let reason):
            logger.error("the store failed", metadata: request.logged(["failure": "\(reason)"]))
        case .unauthorized, .limited, .exportUnderWay, .invalid, .notFound, .cancelled: break
        }
    }
}
