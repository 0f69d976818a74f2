/// The version of Dwell, in this one place: `dwell --version`, the log's first line.
let version = "0.1.0"
