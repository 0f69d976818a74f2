// Handles PUT and DELETE /native/devices/{token}, and POST /api/push/register-token, which shipped clients use.

import HTTPServer
import Identity
import JourneyModel

struct DeviceHandlers: Sendable {
    let devices: any DeviceService
    let failures: AccountFailures

    /// Stores the device. Responds with 201 if the driver did not have this device before, otherwise with 200.
    var put: CallerHandler {
        { request, caller throws(ProblemResponse) in
            let device = try DeviceBody.decode(request)
            do throws(AccountFailure) {
                let isNew = try await devices.put(device, of: caller, from: request.origin)
                return AccountResponses.device(device, isNew: isNew)
            } catch { throw failures.problem(error, request) }
        }
    }

    var legacyPut: CallerHandler {
        { request, caller throws(ProblemResponse) in
            let device = try DeviceBody.decodeLegacy(request)
            do throws(AccountFailure) {
                _ = try await devices.put(device, of: caller, from: request.origin)
            } catch { throw failures.problem(error, request) }
            return AccountResponses.legacyDone
        }
    }

    /// Deletes a device of the driver. Responds with 204 even if the driver has no such device, so that the response
    /// does not reveal other drivers' devices.
    var delete: CallerHandler {
        { request, caller throws(ProblemResponse) in
            let token = try PushToken.read(request)
            do throws(AccountFailure) {
                try await devices.remove(pushToken: token, of: caller, from: request.origin)
            } catch { throw failures.problem(error, request) }
            return AccountResponses.noContent
        }
    }
}
