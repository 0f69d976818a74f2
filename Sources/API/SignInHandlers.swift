// The handlers for signing in, and their dependencies.

import HTTP1
import HTTPServer
package import Identity
import JourneyModel
import Logging
import Purchases

package struct SignInServices: Sendable {
    package var signIns: any SignInService
    package var sessions: any SignInSessionService
    package var accounts: any AccountService
    package var devices: any DeviceService
    /// The verification codes of sessions.
    package var sessionCodes: SessionCodes
    package var appleTokens: any AppleTokenVerifying
    package var appleNotices: any AppleNotificationService
    /// Whether a way to deliver codes is configured.
    package var sendsCodes: Bool
    /// The public keys as JSON, which GET /.well-known/jwks.json returns.
    package var publicKeySet: [UInt8]

    package init(
        signIns: any SignInService, sessions: any SignInSessionService, accounts: any AccountService,
        devices: any DeviceService, sessionCodes: SessionCodes, appleTokens: any AppleTokenVerifying,
        appleNotices: any AppleNotificationService, sendsCodes: Bool, publicKeySet: [UInt8]
    ) {
        self.signIns = signIns
        self.sessions = sessions
        self.accounts = accounts
        self.devices = devices
        self.sessionCodes = sessionCodes
        self.appleTokens = appleTokens
        self.appleNotices = appleNotices
        self.sendsCodes = sendsCodes
        self.publicKeySet = publicKeySet
    }
}

struct SignInHandlers: Sendable {
    let apple: AppleHandlers
    let codes: CodeHandlers
    let sessions: SignInSessionHandlers
    let accounts: AccountHandlers
    let devices: DeviceHandlers
    /// The response with the public keys. It is built once, because the keys do not change while the server runs.
    let keySet: Response

    init(
        _ services: SignInServices, purchases: (any PurchaseService)?, limit: DriverLimit, logger: Logger
    ) {
        let failures = AccountFailures(logger: logger)
        apple = AppleHandlers(
            tokens: services.appleTokens, signIns: services.signIns, notices: services.appleNotices,
            failures: failures)
        codes = CodeHandlers(signIns: services.signIns, areSent: services.sendsCodes, failures: failures)
        sessions = SignInSessionHandlers(sessions: services.sessions, failures: failures)
        accounts = AccountHandlers(
            accounts: services.accounts, purchases: purchases, failures: failures, limit: limit)
        devices = DeviceHandlers(devices: services.devices, failures: failures)
        keySet = Response(
            status: .ok,
            fields: Fields([("Content-Type", "application/json"), ("Cache-Control", "public, max-age=3600")]),
            body: .bytes(services.publicKeySet))
    }
}
