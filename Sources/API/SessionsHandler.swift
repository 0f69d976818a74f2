// POST /native/sessions: registers a session before its first event (contract, section 3).

import Engine
import HTTP1
import HTTPServer
import Identity
import JourneyModel
import Logging

struct SessionsHandler: Sendable {
    let store: any EventStore
    let logger: Logger

    var post: CallerHandler {
        { request, caller throws(ProblemResponse) in
            let body = try BodyDecoding.json(request)
            let session: SessionSubmission
            do throws(BodyRefusal) {
                session = try SessionSubmission.decode(body)
            } catch {
                throw ProblemResponse(error)
            }
            let registration = SessionRegistration(
                sessionID: session.sessionID, driver: caller.driver, chargerID: session.chargerID,
                merchantID: session.merchantID, receivedAt: request.receivedAt)
            let outcome: RegistrationOutcome
            do throws(StoreFailure) {
                outcome = try await store.register(registration)
            } catch {
                logger.storeFailed(error, request)
                throw ProblemResponse(registering: error)
            }
            switch outcome {
            case .created: return response(session, .created)
            case .existed: return response(session, .ok)
            case .sessionNotFound: throw .sessionNotFound
            }
        }
    }

    private func response(_ session: SessionSubmission, _ status: Status) -> Response {
        Response(
            status: status, fields: Fields([("Content-Type", "application/json")]), body: .bytes(session.encoded))
    }
}
