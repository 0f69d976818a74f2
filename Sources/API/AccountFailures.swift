// Maps the failures of account services to responses, and logs their details.

import HTTPServer
import Identity
import JourneyModel
import Logging

struct AccountFailures: Sendable {
    let logger: Logger

    func problem(_ failure: AccountFailure, _ request: Request) -> ProblemResponse {
        log(failure, request)
        return ProblemResponse(failure)
    }

    /// For requests that only read: logs the failure and returns the problem for the response.
    func problem(reading failure: AccountFailure, _ request: Request) -> ProblemResponse {
        log(failure, request)
        switch failure {
        case .unavailable, .unknown, .cancelled: return .accountsUnreadable
        default: return ProblemResponse(failure)
        }
    }

    func log(_ failure: AccountFailure, _ request: Request) {
        switch failure {
        case .unavailable(let reason), .unknown(let reason):
            logger.error("store error", metadata: request.logged(["failure": "\(reason)"]))
        case .unauthorized, .limited, .exportUnderWay, .invalid, .notFound, .cancelled: break
        }
    }
}
