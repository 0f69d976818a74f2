// Delivery of one-time codes to the log, for development (`OTP_DELIVERY=log`).

package import Identity
package import Logging
import Secrets

/// Writes each code and its phone number to the log, because development servers cannot send codes to phones. All other
/// parts of the server keep codes and phone numbers out of the log. A production configuration rejects the setting
/// `log`.
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
