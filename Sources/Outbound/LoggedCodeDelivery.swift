// One-time codes for development: `OTP_DELIVERY=log`.

package import Identity
package import Logging
import Secrets

/// Writes each code and its phone number to the log, because in development there is no phone to send the code to. No
/// other part of the server logs either. The settings reject `log` in production.
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
