"""NIXL's numbers, names and exceptions, and how the library's failures become them."""
import enum

from towpath import errors


class _Named(enum.IntEnum):
    """As text its name, as NIXL's numbers are: "nixl_status_t.NIXL_SUCCESS". Python's are digits since 3.11.
    As there, each is true, NIXL_SUCCESS too, and equal to its number, but to no name of another enumeration."""

    def __bool__(self):
        return True

    def __eq__(self, other):
        if isinstance(other, _Named) and type(other) is not type(self):
            return False
        return int.__eq__(self, other)

    def __ne__(self, other):
        return not self == other

    __hash__ = int.__hash__

    def __str__(self):
        return f"{type(self).__name__}.{self.name}"

    def __format__(self, how):
        return format(str(self), how)


class nixl_mem_t(_Named):
    DRAM_SEG = 0
    VRAM_SEG = 1
    BLK_SEG = 2
    OBJ_SEG = 3
    FILE_SEG = 4


class nixl_xfer_op_t(_Named):
    NIXL_READ = 0
    NIXL_WRITE = 1


class nixl_cost_t(_Named):
    NIXL_COST_ANALYTICAL_BACKEND = 0


class nixl_thread_sync_t(_Named):
    NIXL_THREAD_SYNC_NONE = 0
    NIXL_THREAD_SYNC_STRICT = 1
    NIXL_THREAD_SYNC_RW = 2
    NIXL_THREAD_SYNC_DEFAULT = 0


class nixl_status_t(_Named):
    NIXL_IN_PROG = 1
    NIXL_SUCCESS = 0
    NIXL_ERR_NOT_POSTED = -1
    NIXL_ERR_INVALID_PARAM = -2
    NIXL_ERR_BACKEND = -3
    NIXL_ERR_NOT_FOUND = -4
    NIXL_ERR_MISMATCH = -5
    NIXL_ERR_NOT_ALLOWED = -6
    NIXL_ERR_REPOST_ACTIVE = -7
    NIXL_ERR_UNKNOWN = -8
    NIXL_ERR_NOT_SUPPORTED = -9
    NIXL_ERR_REMOTE_DISCONNECT = -10
    NIXL_ERR_CANCELED = -11
    NIXL_ERR_NO_TELEMETRY = -12


class nixlNotPostedError(Exception):
    status = nixl_status_t.NIXL_ERR_NOT_POSTED


class nixlInvalidParamError(Exception):
    status = nixl_status_t.NIXL_ERR_INVALID_PARAM


class nixlBackendError(Exception):
    status = nixl_status_t.NIXL_ERR_BACKEND


class nixlNotFoundError(Exception):
    status = nixl_status_t.NIXL_ERR_NOT_FOUND


class nixlMismatchError(Exception):
    status = nixl_status_t.NIXL_ERR_MISMATCH


class nixlNotAllowedError(Exception):
    status = nixl_status_t.NIXL_ERR_NOT_ALLOWED


class nixlRepostActiveError(Exception):
    status = nixl_status_t.NIXL_ERR_REPOST_ACTIVE


class nixlUnknownError(Exception):
    status = nixl_status_t.NIXL_ERR_UNKNOWN


class nixlNotSupportedError(Exception):
    status = nixl_status_t.NIXL_ERR_NOT_SUPPORTED


class nixlRemoteDisconnectError(Exception):
    status = nixl_status_t.NIXL_ERR_REMOTE_DISCONNECT


class nixlCancelledError(Exception):
    status = nixl_status_t.NIXL_ERR_CANCELED


class nixlNoTelemetryError(Exception):
    status = nixl_status_t.NIXL_ERR_NO_TELEMETRY


# The exception for each code of the library. NIXL knows no deadline: to its users a transfer that
# missed it is one that its backend could not bring to an end.
EXCEPTIONS = {
    "invalid_argument": nixlInvalidParamError,
    "out_of_range": nixlInvalidParamError,
    "not_found": nixlNotFoundError,
    "already_exists": nixlInvalidParamError,
    "not_ready": nixlRepostActiveError,
    "unsupported": nixlNotSupportedError,
    "unavailable": nixlBackendError,
    "exhausted": nixlBackendError,
    "denied": nixlNotAllowedError,
    "timed_out": nixlBackendError,
    "cancelled": nixlCancelledError,
    "peer_lost": nixlRemoteDisconnectError,
    "corrupt": nixlMismatchError,
    "io_error": nixlBackendError,
    "no_telemetry": nixlNoTelemetryError,
    "internal": nixlUnknownError,
}


def translate(error):
    """NIXL's exception for a towpath.Error: its name in front, and all that the error says."""
    kind = EXCEPTIONS.get(error.code, nixlUnknownError)
    translated = kind(f"{kind.status.name}: {error}")
    translated.code, translated.hint = error.code, error.hint
    return translated


def caused_by(error):
    """The same, with `error` as its cause."""
    reported = translate(error)
    reported.__cause__ = error
    return reported


class translated:
    """`with translated:` failures of the library leave as NIXL's exceptions."""

    def __enter__(self):
        return self

    def __exit__(self, kind, error, trace):
        if isinstance(error, errors.Error):
            raise translate(error) from error
        return False


translated = translated()
