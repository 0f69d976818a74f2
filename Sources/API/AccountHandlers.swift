// A driver's own account: GET, PATCH, PUT and DELETE /auth/me, the export of the driver's data, and the equivalent
// routes of shipped clients.

import Engine
import HTTP1
import HTTPServer
import Identity
import JourneyModel
import Purchases
import RateLimiting

struct AccountHandlers: Sendable {
    let accounts: any AccountService
    /// The purchase service; nil if the server accepts no purchases.
    let purchases: (any PurchaseService)?
    let failures: AccountFailures
    let limit: DriverLimit

    /// For each group of this many exported bytes, one read is charged to the driver's limit `reads`.
    private static let exportBytesPerRead = 64 << 10

    var show: CallerHandler {
        { request, caller throws(ProblemResponse) in
            let user = try await user(of: caller, request)
            guard let purchases else { return AccountResponses.user(user) }
            do throws(AccountFailure) {
                let token = try await purchases.appAccountToken(of: caller, at: request.receivedAt)
                return AccountResponses.user(user, appAccountToken: token)
            } catch {
                // Respond as if a read had failed, although a driver's first request stores the app account token. The
                // client can safely repeat the request, because every later request returns the stored token.
                throw failures.problem(reading: error, request)
            }
        }
    }

    var change: CallerHandler {
        { request, caller throws(ProblemResponse) in
            AccountResponses.user(try await changed(ProfileBody.decodeChange(request), caller, request))
        }
    }

    var replace: CallerHandler {
        { request, caller throws(ProblemResponse) in
            AccountResponses.user(try await changed(ProfileBody.decodeReplacement(request), caller, request))
        }
    }

    var erase: CallerHandler {
        { request, caller throws(ProblemResponse) in
            try ConfirmationBody.decode(request)
            return AccountResponses.receipt(try await erase(caller, request))
        }
    }

    var export: CallerHandler {
        { request, caller throws(ProblemResponse) in
            // HEAD is a safe method (RFC 9110, sections 9.2.1 and 9.3.2), so it exports nothing and writes no audit
            // entry. The response has no length, because only a complete export has a known length.
            if request.method == .head {
                return exported(Response.noStore([]), body: .stream { _ in })
            }
            do throws(AccountFailure) {
                let first = try await accounts.export(of: caller, from: request.origin)
                limit.charge(caller.driver, .reads, times: first.json.count / Self.exportBytesPerRead)
                let response = Response.noStore(first.json)
                guard first.rest != nil else { return exported(response, body: response.body) }
                return exported(response, body: .stream { try await write(first, to: $0, caller.driver, request) })
            } catch { throw failures.problem(error, request) }
        }
    }

    private func exported(_ response: Response, body: Response.Body) -> Response {
        var response = response
        response.body = body
        response.fields.append("Content-Disposition", "attachment; filename=\"dwell-export.json\"")
        return response
    }

    /// Writes the export. Each piece is read only after the previous piece was written. If reading fails, the document
    /// ends early, because the status has already been sent.
    private func write(
        _ first: ExportPiece, to writer: any ResponseBodyWriter, _ driver: DriverID, _ request: Request
    ) async throws {
        var piece = first
        try await writer.write(piece.json)
        while let rest = piece.rest {
            do throws(AccountFailure) {
                piece = try await rest()
            } catch {
                failures.log(error, request)
                throw error
            }
            limit.charge(driver, .reads, times: piece.json.count / Self.exportBytesPerRead)
            try await writer.write(piece.json)
        }
    }

    // MARK: Shipped clients

    var legacyShow: CallerHandler {
        { request, caller throws(ProblemResponse) in AccountResponses.legacyUser(try await user(of: caller, request)) }
    }

    /// Changes name and email. Other members of the app's profile, such as a car or a picture, are accepted but not
    /// stored.
    var legacyChange: CallerHandler {
        { request, caller throws(ProblemResponse) in
            AccountResponses.legacyUser(try await changed(ProfileBody.decodeChange(request), caller, request))
        }
    }

    /// Deletes the account without a confirmation in the body. Shipped clients send no body; they ask the user for
    /// confirmation on the screen.
    var legacyErase: CallerHandler {
        { request, caller throws(ProblemResponse) in AccountResponses.legacyReceipt(try await erase(caller, request)) }
    }

    private func changed(
        _ change: ProfileChange, _ caller: Caller, _ request: Request
    ) async throws(ProblemResponse) -> User {
        do throws(AccountFailure) {
            return try await accounts.change(change, of: caller, from: request.origin)
        } catch { throw failures.problem(error, request) }
    }

    private func user(of caller: Caller, _ request: Request) async throws(ProblemResponse) -> User {
        do throws(AccountFailure) {
            return try await accounts.user(of: caller)
        } catch { throw failures.problem(reading: error, request) }
    }

    private func erase(_ caller: Caller, _ request: Request) async throws(ProblemResponse) -> ErasureReceipt {
        do throws(AccountFailure) {
            return try await accounts.erase(caller, from: request.origin)
        } catch { throw failures.problem(error, request) }
    }
}

extension Request {
    var origin: RequestOrigin {
        RequestOrigin(
            address: remoteAddress, requestID: id, userAgent: fields.first("User-Agent"), at: receivedAt)
    }
}
