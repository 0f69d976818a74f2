/// The version of Dwell. `dwell --version` prints it, and the line `starting` of the server's log contains it. It is
/// defined only here.
let version = "0.1.0"
