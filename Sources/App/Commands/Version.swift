/// The version of Dwell, defined only here: `dwell --version`, the log's first line.
let version = "0.1.0"
