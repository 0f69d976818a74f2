// Tests of `CertificateChain`. It accepts a valid chain, and rejects a chain if any property of a certificate is wrong.

import Crypto
import Foundation
import JourneyModel
import SwiftASN1
import Testing

@testable import Purchases

@Suite struct CertificateChainTests {
    private func refusal(
        of chain: [[UInt8]], roots: [[UInt8]], at time: Moment = start
    ) async -> PurchaseRefusal? {
        do throws(PurchaseRefusal) {
            _ = try await CertificateChain(roots: roots).leafKey(of: chain, at: time)
            return nil
        } catch { return error }
    }

    private func refusal(_ change: (inout TestAuthority.Flaws) -> Void) async throws -> PurchaseRefusal? {
        var flaws = TestAuthority.Flaws()
        change(&flaws)
        let authority = try TestAuthority(flaws)
        return await refusal(of: authority.chain, roots: [authority.root])
    }

    @Test("A valid chain returns the key of its leaf, the second time from the cache")
    func accepted() async throws {
        let authority = try TestAuthority()
        let chain = CertificateChain(roots: [authority.root])
        for _ in 1...2 {
            let key = try await chain.leafKey(of: authority.chain, at: start)
            #expect(key.rawRepresentation == authority.leafKey.publicKey.rawRepresentation)
        }
    }

    @Test("The pinned root has the fingerprint of Apple Root CA - G3 that Apple publishes")
    func appleRoot() throws {
        let fingerprint = SHA256.hash(data: AppleRootCertificate.g3).map { String(format: "%02x", $0) }.joined()
        #expect(AppleRootCertificate.g3.count == 583)
        #expect(fingerprint == "63343abfb89a6a03ebb57e9b3f5fa7be7c4f5c756f3017b3a8c488c3653e9179")
    }

    @Test("A chain of another authority is rejected, even if its root has the same name")
    func strangers() async throws {
        let (one, other) = (try TestAuthority(), try TestAuthority())
        #expect(await refusal(of: one.chain, roots: [AppleRootCertificate.g3]) == .untrustedRoot)
        #expect(await refusal(of: one.chain, roots: [other.root]) == .untrustedRoot)
        #expect(await refusal(of: [one.leaf, one.intermediate, other.root], roots: [other.root]) == .wrongCertificate)
        #expect(
            await refusal(of: [one.leaf, other.intermediate, other.root], roots: [other.root]) == .wrongCertificate)
        #expect(
            await refusal(of: [other.leaf, one.intermediate, other.root], roots: [other.root]) == .wrongCertificate)
        #expect(await refusal(of: one.chain, roots: []) == .untrustedRoot)
    }

    @Test("A chain that ends in Apple's root but is not signed under it is rejected")
    func appleRootBorrowed() async throws {
        let authority = try TestAuthority()
        let chain = [authority.leaf, authority.intermediate, AppleRootCertificate.g3]
        #expect(await refusal(of: chain, roots: [AppleRootCertificate.g3]) == .wrongCertificate)
    }

    @Test("Two, four or no certificates, a repeated certificate, and a wrong order are rejected")
    func numberAndOrder() async throws {
        let authority = try TestAuthority()
        let (leaf, intermediate, root) = (authority.leaf, authority.intermediate, authority.root)
        let roots = [root]
        #expect(await refusal(of: [], roots: roots) == .wrongChain)
        #expect(await refusal(of: [leaf], roots: roots) == .wrongChain)
        #expect(await refusal(of: [leaf, root], roots: roots) == .wrongChain)
        #expect(await refusal(of: [leaf, intermediate, root, root], roots: roots) == .wrongChain)
        #expect(await refusal(of: [leaf, intermediate, intermediate, root], roots: roots) == .wrongChain)
        #expect(await refusal(of: [root, intermediate, leaf], roots: roots) == .untrustedRoot)
        #expect(await refusal(of: [leaf, root, intermediate], roots: roots) == .untrustedRoot)
        #expect(await refusal(of: [intermediate, leaf, root], roots: roots) == .missingMarker)
        #expect(await refusal(of: [leaf, intermediate, leaf], roots: roots) == .untrustedRoot)
        #expect(await refusal(of: [root, root, root], roots: roots) == .missingMarker)
        #expect(await refusal(of: [leaf, leaf, root], roots: roots) == .missingMarker)
        // The leaf takes the place of the root. It is rejected, because it is not a certificate authority.
        #expect(await refusal(of: [leaf, intermediate, leaf], roots: [leaf]) == .wrongCertificate)
    }

    @Test("A marker extension that is missing, on the wrong certificate or a different one is rejected")
    func markers() async throws {
        #expect(try await refusal { $0.leafMarker = nil } == .missingMarker)
        #expect(try await refusal { $0.intermediateMarker = nil } == .missingMarker)
        #expect(try await refusal { $0.leafMarker = TestAuthority.intermediateMarker } == .missingMarker)
        #expect(try await refusal { $0.intermediateMarker = TestAuthority.leafMarker } == .missingMarker)
        #expect(try await refusal { $0.leafMarker = [1, 2, 840, 113635, 100, 6, 11, 2] } == .missingMarker)
    }

    @Test("Each certificate is valid from its first to its last second, at the time of the signature")
    func dates() async throws {
        let day = 86_400
        for keyPath in [\TestAuthority.Flaws.rootDays, \.intermediateDays, \.leafDays] {
            #expect(try await refusal { $0[keyPath: keyPath] = 1...3000 } == .expiredCertificate)
            #expect(try await refusal { $0[keyPath: keyPath] = -3000 ... -1 } == .expiredCertificate)
            #expect(try await refusal { $0[keyPath: keyPath] = -3000...0 } == nil)
            #expect(try await refusal { $0[keyPath: keyPath] = 0...3000 } == nil)
        }
        let authority = try TestAuthority()
        let chain = CertificateChain(roots: [authority.root])
        // The first pass verifies the chain. The second pass uses the cached result.
        for _ in 1...2 {
            for (seconds, isValid) in [
                (-100 * day - 1, false), (-100 * day, true), (100 * day, true), (100 * day + 1, false),
            ] {
                let time = start.advanced(bySeconds: seconds)
                let key = try? await chain.leafKey(of: authority.chain, at: time)
                #expect((key != nil) == isValid, "\(seconds)")
                let fresh = await refusal(of: authority.chain, roots: [authority.root], at: time)
                #expect(fresh == (isValid ? nil : .expiredCertificate), "\(seconds)")
            }
        }
    }

    @Test("A certificate not signed by a permitted issuer is rejected; so is a leaf key that is not P-256")
    func signatures() async throws {
        #expect(try await refusal { $0.forgesLeaf = true } == .wrongCertificate)
        #expect(try await refusal { $0.forgesIntermediate = true } == .wrongCertificate)
        #expect(try await refusal { $0.intermediateIsAuthority = false } == .wrongCertificate)
        #expect(try await refusal { $0.hasP384Leaf = true } == .wrongCertificate)
        #expect(try await refusal { $0.leafHasUnknownCriticalExtension = true } == .wrongCertificate)
    }

    @Test("A chain with one bit of any byte of any certificate changed is rejected")
    func bits() async throws {
        let authority = try TestAuthority()
        for index in 0..<3 {
            for byte in authority.chain[index].indices {
                var chain = authority.chain
                chain[index][byte] ^= 1 << UInt8(byte % 8)
                let refusal = await refusal(of: chain, roots: [authority.root])
                // The root is compared byte for byte with the pinned root, so its signature is not verified.
                #expect(refusal != nil, "byte \(byte) of certificate \(index)")
                if index == 2 { #expect(refusal == .untrustedRoot) }
            }
        }
    }

    @Test("A certificate that is truncated, empty, too long or has an extra byte is rejected")
    func lengths() async throws {
        let authority = try TestAuthority()
        for index in 0..<2 {
            for length in authority.chain[index].indices {
                var chain = authority.chain
                chain[index] = Array(chain[index].prefix(length))
                #expect(await refusal(of: chain, roots: [authority.root]) == .wrongChain)
            }
            var chain = authority.chain
            chain[index].append(0)
            #expect(await refusal(of: chain, roots: [authority.root]) == .wrongChain)
            chain[index] = [UInt8](repeating: 0x30, count: 1 << 20)
            #expect(await refusal(of: chain, roots: [authority.root]) == .wrongChain)
        }
    }
}
