// Tests of `CertificateStatus`: when a certificate is checked.

import JourneyModel
import Synchronization
import Testing

@testable import Purchases

@Suite struct CertificateStatusTests {
    @Test(arguments: [(nil, true), (-86_399, false), (-86_400, true), (0, false), (86_400, true)] as [(Int?, Bool)])
    func `a certificate is checked once a day, also after the clock was set back`(
        checkedAfter seconds: Int?, isDue: Bool
    ) async throws {
        let authority = try TestAuthority()
        let header = String(try authority.token([:]).prefix { $0 != "." })
        let checkedAt = seconds.map { start.advanced(bySeconds: $0) }
        let signers = [PurchaseSigner(id: 1, header: header, checkedAt: checkedAt, isRevoked: false)]
        let findings = Mutex<[CertificateStatus.Finding]>([])
        let status = CertificateStatus(
            signers: { signers }, record: { _, _, _ in }, query: { _, _ in nil },
            chain: CertificateChain(roots: [authority.root]), clock: { start },
            report: { finding in findings.withLock { $0.append(finding) } })
        await status.check()
        let expected: [CertificateStatus.Finding] = isDue ? [.unknown] : []
        #expect(findings.withLock { $0 } == expected)
    }
}
