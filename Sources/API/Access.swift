// Authorization of routes, decided in one place before any handler runs.
//
// If the content arrives after the head, the credential is checked before the content is read. A client without a valid
// credential therefore cannot make the server hold content in memory. Such a client gets the refusal instead of 100
// (Continue).

import HTTP1
import HTTPServer
import Identity
import JourneyModel
import Secrets

typealias CallerHandler = nonisolated(nonsending) @Sendable (Request, Caller) async throws(ProblemResponse) -> Response

/// A handler that does not receive the caller, for the operator's routes and for routes without an access token.
typealias OpenHandler = nonisolated(nonsending) @Sendable (Request) async throws(ProblemResponse) -> Response

typealias CallerResponder = @Sendable (Request, Caller) -> Reply

struct Access: Sendable {
    let tokens: any TokenVerifier
    /// The value of `OPS_TOKEN`; nil if it is not set.
    var operatorToken: Secret<String>?
    let guesses: OperatorGuesses
    let metrics: TokenMetrics
    var refused = RefusedRequests()

    /// Returns a handler that checks no credential. Either the route needs none, or the service that the handler calls
    /// verifies it.
    ///
    /// - Parameter route: the route's template, for the records of refusals. If nil, refusals are not recorded.
    func anyone(_ handler: @escaping OpenHandler, route: String? = nil, form: ProblemForm = .plain)
        -> RequestHandler
    {
        { request in
            do throws(ProblemResponse) {
                return noted(try await handler(request), nil, route, request)
            } catch {
                return noted(error.response(requestID: request.id, form), nil, route, request)
            }
        }
    }

    /// Returns the check that admits any signed-in driver. A request that has arrived completely starts a task in only
    /// two cases: `respond` returns work, or the token needs a look-up.
    ///
    /// - Parameters:
    ///   - admitsServices: whether tokens of the role `service` are admitted too. If false, they get 403.
    ///   - contentRefusal: returns the problem if the driver's content must not be read. Returns nil if it may be read.
    func driver(
        _ respond: @escaping CallerResponder, route: String, form: ProblemForm = .plain, admitsServices: Bool = false,
        contentRefusal: @escaping @Sendable (DriverID) -> ProblemResponse? = { _ in nil }
    ) -> CredentialCheck {
        CredentialCheck(
            judge: driverJudge(route, form, admitsServices, contentRefusal),
            responder: { request in
                switch judge(request) {
                case .known(let caller):
                    metrics.count(.accepted)
                    if caller.isService, !admitsServices {
                        let response = ProblemResponse.notForServices.response(requestID: request.id, form)
                        return .response(noted(response, of: caller, route, request.id, request.receivedAt))
                    }
                    switch respond(request, caller) {
                    case .response(let response):
                        return .response(noted(response, of: caller, route, request.id, request.receivedAt))
                    case .work(let work):
                        // Capture two values instead of the whole request, because a closure copies what it captures.
                        return .work { [id = request.id, receivedAt = request.receivedAt] in
                            noted(await work(), of: caller, route, id, receivedAt)
                        }
                    }
                case .refused(let problem):
                    return .response(noted(problem.response(requestID: request.id, form), nil, route, request))
                case .needsLookup(let lookUp):
                    return .work {
                        do throws(ProblemResponse) {
                            let caller = try await found(lookUp)
                            metrics.count(.accepted)
                            if caller.isService, !admitsServices { throw .notForServices }
                            let response = await respond(request, caller).response()
                            return noted(response, of: caller, route, request.id, request.receivedAt)
                        } catch {
                            return noted(error.response(requestID: request.id, form), nil, route, request)
                        }
                    }
                }
            })
    }

    /// Returns a function that checks the driver's credential before the content is read. If the request is admitted,
    /// memory for its content counts towards the driver's share of the BufferBudget.
    private func driverJudge(
        _ route: String, _ form: ProblemForm, _ admitsServices: Bool,
        _ contentRefusal: @escaping @Sendable (DriverID) -> ProblemResponse?
    ) -> RequestJudge {
        { request in
            var driver: DriverID?
            do throws(ProblemResponse) {
                let caller = try await caller(of: request)
                driver = caller.driver
                if caller.isService, !admitsServices { throw .notForServices }
                if let problem = contentRefusal(caller.driver) { throw problem }
                return .welcome(client: caller.driver.rawValue)
            } catch {
                // Count a valid token here, because the responder is not called for a refused request.
                if driver != nil { metrics.count(.accepted) }
                var response = error.response(requestID: request.id, form)
                response.principal = driver?.rawValue
                return .refused(noted(response, driver, route, request))
            }
        }
    }

    /// Returns the response. Records a refusal for the operator page.
    private func noted(_ response: Response, _ driver: DriverID?, _ route: String?, _ request: Request) -> Response {
        if let route { note(response.status, driver, route, request.id, request.receivedAt) }
        return response
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

    /// Returns the check that admits services only. A driver's valid token gets 403.
    func service(_ respond: @escaping CallerResponder, route: String) -> CredentialCheck {
        driver(
            { request, caller in
                if caller.isService { return respond(request, caller) }
                return .response(ProblemResponse.forServicesOnly.response(requestID: request.id))
            }, route: route, admitsServices: true)
    }

    /// Returns the check that admits operators. An operator presents `OPS_TOKEN` or an access token of the role `ops`.
    func operatorOnly(_ handler: @escaping OpenHandler) -> CredentialCheck {
        let check = operatorHandler(isJudge: true) { _ in Response(status: .ok) }
        return CredentialCheck(
            judge: { request in
                let response = await check(request)
                return response.status == .ok ? .welcome(client: nil) : .refused(response)
            }, handler: operatorHandler(handler))
    }

    private func operatorHandler(isJudge: Bool = false, _ handler: @escaping OpenHandler) -> RequestHandler {
        anyone { request throws(ProblemResponse) in
            try await guesses.judged(request, token: "ops_token") { () throws(ProblemResponse) in
                if hasOperatorToken(request) { return }
                let caller = try await caller(of: request)
                let isOperator = caller.role == TokenRole.ops.rawValue
                // Count each token once. If the judge admits the request, the responder checks the token again and
                // counts it. Therefore the judge counts a valid token only if it refuses the request.
                if !isJudge || !isOperator { metrics.count(.accepted) }
                guard isOperator else {
                    throw ProblemResponse(.forbidden, "Operator access required.")
                }
            }
            return try await handler(request)
        }
    }

    /// Returns whether the request's operator credential is still valid. The credential may become invalid during a
    /// long stream.
    func isStillOperator(_ request: Request, at now: Moment) async -> Bool {
        if hasOperatorToken(request) { return true }
        return await tokens.callerStill(of: request, at: now)?.role == TokenRole.ops.rawValue
    }

    private func hasOperatorToken(_ request: Request) -> Bool { operatorToken?.isShown(by: request) ?? false }

    /// The result of checking a token without waiting.
    enum CallerVerdict {
        case known(Caller)
        case refused(ProblemResponse)
        case needsLookup(@Sendable () async throws(TokenRefusal) -> Caller)
    }

    /// Checks the request's token without waiting. An invalid token gets 401, after which shipped clients sign in again
    /// (contract, section 3). The response does not say why the token was refused.
    ///
    /// Counts missing and refused tokens. The callers count accepted tokens, because this function may be called twice
    /// for one request.
    private func judge(_ request: Request) -> CallerVerdict {
        let now = request.receivedAtMilliseconds / 1000
        // Look in the cache of verified tokens before checking the token's form. A token in the cache needs no such
        // check: the cache contains only valid tokens, and looks them up by the SHA-256 of all bytes.
        if let value = request.fields.only("Authorization") {
            let verdict = value.withUnsafeBufferPointer { value -> TokenVerdict? in
                BearerToken.candidate(in: UnsafeRawBufferPointer(value)).map {
                    tokens.judge($0, atSecondsSince1970: now)
                }
            }
            switch verdict {
            case .known(let caller)?: return .known(caller)
            case .refused(let refusal)? where refusal != .malformed: return .refused(refused(refusal))
            default: break
            }
        }
        guard var token = BearerToken.read(from: request.fields) else {
            metrics.count(.missing)
            return .refused(unauthorized("A bearer token is required.", challenge: "Bearer realm=\"dwell\""))
        }
        switch token.withUTF8({ tokens.judge(UnsafeRawBufferPointer($0), atSecondsSince1970: now) }) {
        case .known(let caller): return .known(caller)
        case .refused(let refusal): return .refused(refused(refusal))
        case .needsLookup(let lookUp): return .needsLookup(lookUp)
        }
    }

    private nonisolated(nonsending) func caller(of request: Request) async throws(ProblemResponse) -> Caller {
        switch judge(request) {
        case .known(let caller): return caller
        case .refused(let problem): throw problem
        case .needsLookup(let lookUp): return try await found(lookUp)
        }
    }

    private nonisolated(nonsending) func found(
        _ lookUp: () async throws(TokenRefusal) -> Caller
    ) async throws(ProblemResponse) -> Caller {
        do throws(TokenRefusal) {
            return try await lookUp()
        } catch {
            throw refused(error)
        }
    }

    /// Returns the problem for a token that is not accepted: 503 if the status of the token cannot be read, and the
    /// same 401 for every other reason. Only the access log contains the reason.
    private func refused(_ refusal: TokenRefusal) -> ProblemResponse {
        if refusal == .undecided {
            metrics.count(.undecided)
            return .undecidedToken
        }
        metrics.count(.refused)
        var problem = unauthorized(
            "The token is not valid. Sign in again.",
            challenge: "Bearer realm=\"dwell\", error=\"invalid_token\"")
        problem.reason = "\(refusal)"
        return problem
    }

    private func unauthorized(_ detail: String, challenge: String) -> ProblemResponse {
        ProblemResponse(.unauthorized, detail, fields: Fields([("WWW-Authenticate", challenge)]))
    }
}

extension TokenVerifier {
    /// Returns the caller, or nil if the request's token is no longer valid or its status cannot be read. Streams call
    /// this function, because a token may become invalid during a stream.
    func callerStill(of request: Request, at now: Moment) async -> Caller? {
        guard let token = BearerToken.read(from: request.fields) else { return nil }
        return try? await verify(token, atSecondsSince1970: now.millisecondsSinceEpoch / 1000)
    }
}
