// Authorization of routes, decided in one place before any handler runs.

import HTTP1
import HTTPServer
import Identity
import JourneyModel
import Secrets

/// A handler that requires a token: it gets the caller.
typealias CallerHandler = nonisolated(nonsending) @Sendable (Request, Caller) async throws(ProblemAnswer) -> Response

/// A handler without authorization; credentials, if any, are in the request's body.
typealias OpenHandler = nonisolated(nonsending) @Sendable (Request) async throws(ProblemAnswer) -> Response

/// Responds to a request whose caller is known: with a response, or with the work that makes it.
typealias CallerResponder = @Sendable (Request, Caller) -> Reply

struct Access: Sendable {
    let tokens: any TokenVerifier
    /// `OPS_TOKEN`
    var operatorToken: Secret<String>?
    let guesses: OperatorGuesses
    let metrics: TokenMetrics
    var refused = RefusedRequests()

    /// No authorization: for routes that must respond without a credential, such as `/healthz`, and for those whose
    /// credential is in the body.
    ///
    /// - Parameter route: its template, under which refusals are recorded; nil: they are not.
    func anyone(_ handler: @escaping OpenHandler, route: String? = nil, form: ProblemForm = .plain)
        -> RequestHandler
    {
        { request in
            do throws(ProblemAnswer) {
                return noted(try await handler(request), nil, route, request)
            } catch {
                return noted(error.response(requestID: request.id, form), nil, route, request)
            }
        }
    }

    /// Any signed-in driver. A task is started only for work, and where the token needs a look-up.
    func driver(_ respond: @escaping CallerResponder, route: String, form: ProblemForm = .plain) -> Responder {
        { request in
            switch judge(request) {
            case .known(let caller):
                switch respond(request, caller) {
                case .response(let response):
                    return .response(noted(response, of: caller, route, request.id, request.receivedAt))
                case .work(let work):
                    // Not the whole request: a closure copies what it captures.
                    return .work { [id = request.id, receivedAt = request.receivedAt] in
                        noted(await work(), of: caller, route, id, receivedAt)
                    }
                }
            case .refused(let answer):
                return .response(noted(answer.response(requestID: request.id, form), nil, route, request))
            case .needsLookup(let lookUp):
                return .work {
                    do throws(ProblemAnswer) {
                        let caller = try await found(lookUp)
                        let response = await respond(request, caller).response()
                        return noted(response, of: caller, route, request.id, request.receivedAt)
                    } catch {
                        return noted(error.response(requestID: request.id, form), nil, route, request)
                    }
                }
            }
        }
    }

    /// The same for a handler whose requests all need a task.
    func driver(_ handler: @escaping CallerHandler, route: String, form: ProblemForm = .plain) -> Responder {
        driver(
            { request, caller in
                .work {
                    do throws(ProblemAnswer) {
                        return try await handler(request, caller)
                    } catch {
                        return error.response(requestID: request.id, form)
                    }
                }
            }, route: route, form: form)
    }

    /// The same check of the credential, before the content is read. The memory of accepted content is counted
    /// under the driver.
    ///
    /// - Parameter refusal: the response to a driver whose content must not be read; nil if it may.
    func driverJudge(
        route: String, form: ProblemForm = .plain, refusal: @escaping @Sendable (DriverID) -> ProblemAnswer?
    ) -> RequestJudge {
        { request in
            var driver: DriverID?
            do throws(ProblemAnswer) {
                let caller = try await caller(of: request).driver
                driver = caller
                if let answer = refusal(caller) { throw answer }
                return .welcome(client: caller.rawValue)
            } catch {
                var response = error.response(requestID: request.id, form)
                response.principal = driver?.rawValue
                return .refused(noted(response, driver, route, request))
            }
        }
    }

    /// Returns the response, and records it for the operator if it is a refusal.
    private func noted(_ answer: Response, _ driver: DriverID?, _ route: String?, _ request: Request) -> Response {
        if let route { note(answer.status, driver, route, request.id, request.receivedAt) }
        return answer
    }

    private func noted(
        _ response: consuming Response, of caller: Caller, _ route: String, _ requestID: String, _ receivedAt: Moment
    ) -> Response {
        response.principal = caller.driver.rawValue
        note(response.status, caller.driver, route, requestID, receivedAt)
        return response
    }

    private func note(
        _ status: Status, _ driver: DriverID?, _ route: String, _ requestID: String, _ receivedAt: Moment
    ) {
        if status.code < 400 { return }
        refused.note(status, driver, route: route, requestID: requestID, at: receivedAt)
    }

    /// Operators: `OPS_TOKEN`, or an access token of the role `ops`.
    func operatorOnly(_ handler: @escaping OpenHandler) -> RequestHandler {
        anyone { request throws(ProblemAnswer) in
            try await guesses.judged(request, token: "ops_token") { () throws(ProblemAnswer) in
                if hasOperatorToken(request) { return }
                let caller = try await caller(of: request)
                guard caller.role == TokenRole.ops.rawValue else {
                    throw ProblemAnswer(.forbidden, "Operator access required.")
                }
            }
            return try await handler(request)
        }
    }

    /// The same check of the credential, before the content is read.
    var operatorJudge: RequestJudge {
        let check = operatorOnly { _ in Response(status: .ok) }
        return { request in
            let answer = await check(request)
            return answer.status == .ok ? .welcome(client: nil) : .refused(answer)
        }
    }

    /// Repeats the check for a response that continues long after the request was authorized.
    func isStillOperator(_ request: Request, at now: Moment) async -> Bool {
        if hasOperatorToken(request) { return true }
        return await tokens.callerStill(of: request, at: now)?.role == TokenRole.ops.rawValue
    }

    private func hasOperatorToken(_ request: Request) -> Bool { operatorToken?.isShown(by: request) ?? false }

    /// What is known of the caller without waiting.
    enum CallerVerdict {
        case known(Caller)
        case refused(ProblemAnswer)
        case needsLookup(@Sendable () async throws(TokenRefusal) -> Caller)
    }

    /// Judges the request's token without waiting. Refuses with 401 only: shipped clients take 401 and 403 as "sign in
    /// again" (contract, section 3), and the client does not learn why its token was refused.
    private func judge(_ request: Request) -> CallerVerdict {
        let now = request.receivedAtMilliseconds / 1000
        // A cached token is matched by all of its bytes, so its form need not be checked again.
        if let value = request.fields.only("Authorization") {
            let verdict = value.withUnsafeBufferPointer { value -> TokenVerdict? in
                BearerToken.candidate(in: UnsafeRawBufferPointer(value)).map {
                    tokens.judge($0, atSecondsSince1970: now)
                }
            }
            switch verdict {
            case .known(let caller)?:
                metrics.count(.accepted)
                return .known(caller)
            case .refused(let refusal)? where refusal != .malformed: return .refused(refused(refusal))
            default: break
            }
        }
        guard var token = BearerToken.read(from: request.fields) else {
            metrics.count(.missing)
            return .refused(unauthorized("A bearer token is required.", challenge: "Bearer realm=\"dwell\""))
        }
        switch token.withUTF8({ tokens.judge(UnsafeRawBufferPointer($0), atSecondsSince1970: now) }) {
        case .known(let caller):
            metrics.count(.accepted)
            return .known(caller)
        case .refused(let refusal): return .refused(refused(refusal))
        case .needsLookup(let lookUp): return .needsLookup(lookUp)
        }
    }

    private nonisolated(nonsending) func caller(of request: Request) async throws(ProblemAnswer) -> Caller {
        switch judge(request) {
        case .known(let caller): return caller
        case .refused(let answer): throw answer
        case .needsLookup(let lookUp): return try await found(lookUp)
        }
    }

    private nonisolated(nonsending) func found(
        _ lookUp: () async throws(TokenRefusal) -> Caller
    ) async throws(ProblemAnswer) -> Caller {
        do throws(TokenRefusal) {
            let caller = try await lookUp()
            metrics.count(.accepted)
            return caller
        } catch {
            throw refused(error)
        }
    }

    /// The reason goes to the access log only.
    private func refused(_ refusal: TokenRefusal) -> ProblemAnswer {
        if refusal == .undecided {
            metrics.count(.undecided)
            return .undecidedToken
        }
        metrics.count(.refused)
        var answer = unauthorized(
            "The token is not valid. Sign in again.",
            challenge: "Bearer realm=\"dwell\", error=\"invalid_token\"")
        answer.reason = "\(refusal)"
        return answer
    }

    private func unauthorized(_ detail: String, challenge: String) -> ProblemAnswer {
        ProblemAnswer(.unauthorized, detail, fields: Fields([("WWW-Authenticate", challenge)]))
    }
}

extension TokenVerifier {
    /// The caller, if the request's token is still valid: it may have expired, or the sign-in been revoked, since a
    /// stream began.
    func callerStill(of request: Request, at now: Moment) async -> Caller? {
        guard let token = BearerToken.read(from: request.fields) else { return nil }
        return try? await verify(token, atSecondsSince1970: now.millisecondsSinceEpoch / 1000)
    }
}
