// One-time codes for development: `OTP_DELIVERY=log`.

package import Identity
package import Logging
import Secrets

/// Writes each code and its number to the log. Deliberately the one place in the server that shows either: there is
/// no phone to send it to. Settings reject it in production.
package struct LoggedCodeDelivery: CodeDelivery {
    package static let message = "one-time code, logged because OTP_DELIVERY=log"

    private let logger: Logger

    package init(logger: Logger) {
        self.logger = logger
    }

    package func deliver(_ code: OutgoingCode) {
        logger.notice(
            "\(Self.message)",
            metadata: ["phone": "\(code.phone.reveal())", "code": "\(code.code.reveal())"])
    }
}
