// Tests of `CertificateStatus`: when a certificate is checked, and when a recorded revocation counts.

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

    @Test func `a recorded revocation counts before the responder is asked about other certificates`() async throws {
        let (authority, stolen) = (try TestAuthority(), try TestAuthority())
        func signer(_ id: Int64, _ authority: TestAuthority, isRevoked: Bool) throws -> PurchaseSigner {
            let header = String(try authority.token([:]).prefix { $0 != "." })
            return PurchaseSigner(id: id, header: header, checkedAt: nil, isRevoked: isRevoked)
        }
        let signers = try [signer(1, authority, isRevoked: false), signer(2, stolen, isRevoked: true)]
        let chain = CertificateChain(roots: [authority.root, stolen.root])
        let rejects = Mutex<[Bool]>([])
        let status = CertificateStatus(
            signers: { signers }, record: { _, _, _ in }, query: { _, _ in nil }, chain: chain, clock: { start },
            report: { _ in rejects.withLock { $0.append(chain.isRevoked(stolen.chain)) } })
        await status.check()
        #expect(rejects.withLock { $0 } == [true])
        await #expect(throws: PurchaseRefusal.revokedCertificate) {
            try await chain.leafKey(of: stolen.chain, at: start)
        }
    }
}
