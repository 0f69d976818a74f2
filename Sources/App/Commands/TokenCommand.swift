// `dwell token`: prints an access token, for an operator's tests or for another service.

import ArgumentParser
import Identity
import JourneyModel
import StructuredLogging

struct TokenCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "token",
        abstract: "Print an access token for a driver.",
        discussion: """
            Signs the token with the server's key: JWT_SECRET, JWT_PRIVATE_KEY_FILE, or the key that the server \
            created beside its database. If none of them is found, exits with status 78: run the command in the \
            server's working directory, or with its settings. The token has no sign-in session, so it cannot be \
            revoked: it is valid until it expires, unless the server has JWT_TRUST_EXTERNAL=false. Prints only the \
            token to standard output.

            EXAMPLES
              curl -H "Authorization: Bearer $(dwell token --driver jonas)" http://127.0.0.1:8080/native/config
              dwell token --driver you --role ops --ttl 86400
              dwell token --driver web-backend --role service --ttl 2592000
            """)

    @Option(
        name: [.customLong("driver"), .customLong("sub")],
        help: ArgumentHelp("The driver's id (sub): 1 to 128 characters.", valueName: "id"))
    var driver: String

    @Option(help: "Role in the token; ops reads /ops, service posts events for drivers.")
    var role: TokenRole?

    @Option(
        help: ArgumentHelp("Lifetime of the token, instead of ACCESS_TOKEN_TTL_SECONDS.", valueName: "seconds"))
    var ttl: Int64?

    @OptionGroup var settingsOptions: SettingsOptions

    /// The maximum lifetime of a token: ten years, in seconds. A token is valid only while its signing key is in use,
    /// and no key should be in use for more than ten years.
    static let ttlSecondsMax: Int64 = 315_360_000

    func validate() throws {
        if let ttl, !(1...Self.ttlSecondsMax).contains(ttl) {
            throw ValidationError("--ttl must be a whole number of seconds from 1 to \(Self.ttlSecondsMax).")
        }
        guard AccessTokenIssuer.acceptsDriver(driver) else {
            throw ValidationError("--driver must have 1 to 128 characters, without control characters.")
        }
    }

    func run() async throws {
        let report = Configuration.report(from: ConfigurationInput(overrides: settingsOptions.overrides))
        let tokens = try report.required().tokens
        let issuer = await AccessTokenIssuer(key: try tokens.requiredKey(), scope: tokens.scope)
        let now = millisecondsSince1970() / 1000
        print(
            try await issuer.mint(
                driver: DriverID(driver), role: role?.rawValue, ttlSeconds: ttl ?? Int64(tokens.timeToLiveSeconds),
                now: now))
    }
}

extension TokenRole: ExpressibleByArgument {}
