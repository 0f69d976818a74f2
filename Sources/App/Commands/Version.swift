/// The version of Dwell, which is defined only here. `dwell --version` prints it, and the server logs it in the line
/// `starting`.
let version = "0.1.0"
