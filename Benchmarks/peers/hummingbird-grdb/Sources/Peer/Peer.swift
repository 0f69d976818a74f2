// The two routes of the benchmark, written in the usual way with Hummingbird, GRDB and JWTKit. Tokens and statements
// are cached, the settings are encoded once, and logging is off.

import Foundation
import GRDB
import Hummingbird
import JWTKit
import Logging

@main
struct Peer {
    static func main() async throws {
        let environment = ProcessInfo.processInfo.environment
        guard let port = environment["HTTP_PORT"].flatMap(Int.init), let path = environment["DATABASE_PATH"],
            let secret = environment["JWT_SECRET"]
        else { throw MissingVariable() }
        let tokens = await Tokens(secret: secret)
        let store = try Store(path: path)
        let limiter = SlidingWindow(
            limit: environment["RATE_LIMIT_SESSION_EVENTS"].flatMap(Int.init) ?? 60,
            seconds: environment["RATE_LIMIT_WINDOW_SECONDS"].flatMap(Double.init) ?? 60)

        let router = Router(context: DriverContext.self)
        router.add(middleware: Authentication(tokens: tokens))
        router.get("/native/config") { _, _ in PhoneSettings.response }
        router.post("/native/events") { request, context async throws -> Response in
            let body = try await request.body.collect(upTo: 64 * 1024)
            let event = try Event(decoding: body)
            guard limiter.admits(context.driver) else {
                return Response(status: .tooManyRequests, headers: [.retryAfter: "1"])
            }
            let answer = try await store.append(event, of: context.driver)
            guard let answer else { return Response(status: .unprocessableContent) }
            return try context.responseEncoder.encode(answer, from: request, context: context)
        }
        var logger = Logger(label: "peer")
        logger.logLevel = .error
        let application = Application(
            router: router, configuration: .init(address: .hostname("127.0.0.1", port: port)), logger: logger)
        try await application.runService()
    }

    struct MissingVariable: Error {}
}

/// The driver that the token names.
struct DriverContext: RequestContext {
    var coreContext: CoreRequestContextStorage
    var driver = ""

    init(source: Source) {
        coreContext = .init(source: source)
    }
}

struct Authentication: RouterMiddleware {
    let tokens: Tokens

    func handle(
        _ request: Request, context: DriverContext, next: (Request, DriverContext) async throws -> Response
    ) async throws -> Response {
        guard let field = request.headers[.authorization], field.hasPrefix("Bearer "),
            let driver = await tokens.driver(of: String(field.dropFirst(7)))
        else { throw HTTPError(.unauthorized) }
        var context = context
        context.driver = driver
        return try await next(request, context)
    }
}

enum PhoneSettings {
    static let body = ByteBuffer(
        string: #"{"chargerIntentRadius_m":400,"chargerAnchorRadius_m":30,"chargerDwellSeconds":120,"#
            + #""merchantUnlockRadius_m":40,"gracePeriodSeconds":900,"hardTimeoutSeconds":3600,"#
            + #""locationAccuracyThreshold_m":50,"speedThresholdForDwell_mps":1.5}"#)

    static var response: Response {
        Response(
            status: .ok,
            headers: [
                .contentType: "application/json", .cacheControl: "private, max-age=86400",
                .eTag: "\"2dc2c112dbf76568\"",
            ],
            body: ResponseBody(byteBuffer: body))
    }
}
