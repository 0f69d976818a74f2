// Delivery of one-time codes to the log, for development (`OTP_DELIVERY=log`).

package import Identity
package import Logging
import Secrets

/// Writes each code and its phone number to the log, because in development there is no phone to send the code to. All
/// other parts of the server keep both out of the log. In production, the setting `log` is rejected.
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
