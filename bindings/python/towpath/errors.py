"""Failures as exceptions: a code that a program can act on, the sentence, and the hint.

Each code of the library has a class of its own, which is also the built-in exception that says the
same, where there is one:

    try:
        agent.load_metadata(metadata)
    except towpath.Corrupt as error:
        print(error.code, error.message, error.hint)

The failure underneath is the exception's ``__cause__``.
"""


class Error(Exception):
    """Any failure of the library. ``code`` is its name, the same in every language."""

    code = "internal"

    def __init__(self, message="", hint=""):
        super().__init__(message)
        self.message = message
        self.hint = hint

    def __str__(self):
        said = f"{self.code}: {self.message}"
        if self.hint:
            said += f" (hint: {self.hint})"
        return f"{said} <- {self.__cause__}" if isinstance(self.__cause__, Error) else said

    def __reduce__(self):
        return type(self), (self.message, self.hint), {"__cause__": self.__cause__}


class InvalidArgument(Error, ValueError):
    """The call is wrong whatever the state of the world."""

    code = "invalid_argument"


class OutOfRange(Error, ValueError):
    """An index, offset or length lies outside what it points into."""

    code = "out_of_range"


class NotFound(Error, LookupError):
    """No such peer, registration, file or backend."""

    code = "not_found"


class AlreadyExists(Error):
    """The name or place is taken."""

    code = "already_exists"


class NotReady(Error):
    """The right call at the wrong moment: not posted, still active, closed."""

    code = "not_ready"


class Unsupported(Error):
    """This build, machine or backend cannot do it; the message says which."""

    code = "unsupported"


class Unavailable(Error, ConnectionError):
    """The other side does not answer now; it may be tried again."""

    code = "unavailable"


class Exhausted(Error):
    """Memory, disk space, descriptors or queue slots ran out."""

    code = "exhausted"


class Denied(Error, PermissionError):
    """Permissions, limits or a policy refuse it."""

    code = "denied"


class TimedOut(Error, TimeoutError):
    """The deadline passed first."""

    code = "timed_out"


class Cancelled(Error):
    """The caller asked for it to stop."""

    code = "cancelled"


class PeerLost(Error, ConnectionError):
    """The other agent died, restarted or was cut off."""

    code = "peer_lost"


class Corrupt(Error):
    """Bytes are not what their digest, checksum or format promises."""

    code = "corrupt"


class IoError(Error, OSError):
    """The kernel or the device reported an error."""

    code = "io_error"


class NoTelemetry(Error):
    """Figures were asked for that were not, or not yet, recorded."""

    code = "no_telemetry"


class Internal(Error):
    """A fault of Towpath itself; please report it."""

    code = "internal"


BY_CODE = {kind.code: kind for kind in Error.__subclasses__()}


def from_status(code, message, hint, cause):
    """What the extension raises for a failure of the library."""
    error = BY_CODE.get(code, Internal)(message, hint)
    error.__cause__ = cause
    return error
