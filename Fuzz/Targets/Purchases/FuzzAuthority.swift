// A certificate chain with the form of Apple's. Its private keys are deleted. The keys are P-256 instead of Apple's
// P-384, because verifying P-256 is ten times faster.

import Foundation

enum FuzzAuthority {
    /// Leaf, intermediate and root certificate in DER, valid from 2020 to 2099.
    static let chain = [leaf, intermediate, root].map { text in
        Array(Data(base64Encoded: text, options: .ignoreUnknownCharacters) ?? Data())
    }

    private static let leaf = """
        MIIBjjCCATSgAwIBAgIUIurwF/znRIpekksc2XOfKQ4+gW4wCgYIKoZIzj0EAwIwFzEVMBMGA1UEAwwMSW50ZXJtZWRpYXRlMCAX
        DTIwMDEwMTAwMDAwMFoYDzIxMDAwMTAxMDAwMDAwWjAPMQ0wCwYDVQQDDARMZWFmMFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAE
        lV+WLC1uoL2X1MBkgOQ+OQAexUyuyiantQH5XRrlrg4nNOJ63HGlLk0FGHtoi2bHFpBO6lYBBE4VXa3u6BHOeKNkMGIwDAYDVR0T
        AQH/BAIwADAOBgNVHQ8BAf8EBAMCB4AwEAYKKoZIhvdjZAYLAQQCBQAwMAYIKwYBBQUHAQEEJDAiMCAGCCsGAQUFBzABhhRodHRw
        Oi8vb2NzcC5leGFtcGxlLzAKBggqhkjOPQQDAgNIADBFAiA3KYu/UlrTnnlP0xF1X6f0/dumnnGAVExPH3+1jLN0dQIhALkH2YQO
        5ueIe7PHE4aK+2QBX4frlPjmzsCtZ9i0reO4
        """

    private static let intermediate = """
        MIIBYDCCAQWgAwIBAgIUAVGN/6YQhTLfJsC3WeSyM9E6ixAwCgYIKoZIzj0EAwIwDzENMAsGA1UEAwwEUm9vdDAgFw0yMDAxMDEw
        MDAwMDBaGA8yMTAwMDEwMTAwMDAwMFowFzEVMBMGA1UEAwwMSW50ZXJtZWRpYXRlMFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAE
        kcgfCapatcyr4TmjKRgMisL8s/P8CQV9M+oOedvBa0rPeWw8/Md9be+MyDyW4xNo1NHyktG0/6f9GbFQ7E5yPqM1MDMwDwYDVR0T
        AQH/BAUwAwEB/zAOBgNVHQ8BAf8EBAMCAQYwEAYKKoZIhvdjZAYCAQQCBQAwCgYIKoZIzj0EAwIDSQAwRgIhALDMjThXhg4+EY/b
        +J5vPZzEeKLZF+cE7TYkLuPFMWzhAiEA1ZsMlJZl0h4H2cZ0gU9ko1/reURvheucIxexJRYCywI=
        """

    private static let root = """
        MIIBQzCB66ADAgECAhQVE2Dbyn2GQ1Jro92GI4BGLp4lyDAKBggqhkjOPQQDAjAPMQ0wCwYDVQQDDARSb290MCAXDTIwMDEwMTAw
        MDAwMFoYDzIxMDAwMTAxMDAwMDAwWjAPMQ0wCwYDVQQDDARSb290MFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAE++jJjQc8DaLZ
        cz/3pg/sppfsxsJ/cLBbwOf6aBLyBd76/o1z+9VsJ+6M2x31c4iCIlCPULyKJuqiRjG1M56aTaMjMCEwDwYDVR0TAQH/BAUwAwEB
        /zAOBgNVHQ8BAf8EBAMCAQYwCgYIKoZIzj0EAwIDRwAwRAIga6bZ/sj3p9huSad1YCaghsMaW+7Jmm144hSCzTZ6uCUCIBiPB4iW
        GQPHnArj6h2Vi25YyjUnoufUBljMxCzRev22
        """
}
