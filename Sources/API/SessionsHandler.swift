// POST /native/sessions: registers a session before its first event (contract, section 3).

import Engine
import HTTP1
import HTTPServer
import Identity
import JourneyModel

struct SessionsHandler: Sendable {
    let store: any EventStore

    var post: CallerHandler {
        { request, caller throws(Problem) in
            let body = try BodyDecoding.json(request, bytesMax: RequestLimits.eventBytesMax)
            let session: SessionBody
            switch SessionBody.decode(body) {
            case .success(let decoded): session = decoded
            case .failure(let rejection): throw Problem(rejection)
            }
            let registration = SessionRegistration(
                sessionID: session.sessionID, driver: caller.driver, chargerID: session.chargerID,
                merchantID: session.merchantID,
                receivedAt: Moment(millisecondsSinceEpoch: request.receivedAtMilliseconds))
            let outcome: RegistrationOutcome
            do {
                outcome = try await store.register(registration)
            } catch {
                throw Problem(error)
            }
            switch outcome {
            case .created: return answer(session, .created)
            case .existed: return answer(session, .ok)
            case .sessionNotFound: throw .sessionNotFound
            }
        }
    }

    private func answer(_ session: SessionBody, _ status: Status) -> Response {
        Response(
            status: status, fields: Fields([("Content-Type", "application/json")]),
            body: .bytes(session.answer()))
    }
}
