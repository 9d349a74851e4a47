"""XCE's version, as the commands print it. A test compares it with the package's."""

VERSION = "0.1.0"
