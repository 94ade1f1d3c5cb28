"""Metadata over the network: send, fetch and invalidate, by address and port, or by an etcd.

Calls return when they are accepted, as in NIXL. What came of them is logged with the next look at
a peer (check_remote_metadata), and failures are warnings there.

    NIXL_ETCD_ENDPOINTS, NIXL_ETCD_NAMESPACE   the store for calls without an address
    TOWPATH_ETCD_USER, _PASSWORD_FILE, _CA_FILE, _CERT_FILE, _KEY_FILE   for one that asks who comes
    TOWPATH_LISTEN_HOST                        where the listen thread listens; loopback if unset
    TOWPATH_TOKEN_FILE                         a token that all share; needed to listen wider than that, and for
                                               an etcd of another host that is not https://

Both prefixes are good for each, and NIXL's configuration file may say them too.
"""
import threading

from towpath import _towpath, errors
from towpath.nixl.logging import get_logger

logger = get_logger("metadata")

_FULL = "metadata"  # NIXL's label of an agent's full metadata


def store_url(reported):
    """The etcd that the settings name, as a URL of the library; None when they name none."""
    endpoints = [end.strip() for end in reported["etcd_endpoints"] if end.strip()]
    if not endpoints:
        return None
    secure = {end.startswith("https://") for end in endpoints}
    if len(secure) > 1:
        raise errors.InvalidArgument("NIXL_ETCD_ENDPOINTS mixes http:// and https://",
                                     "use one of them for all endpoints")
    hosts = ",".join(end.partition("://")[2] or end for end in endpoints).replace("/", "")
    user = reported["etcd_user"] + "@" if reported["etcd_user"] else ""
    files = {"token-file": reported["token_file"], "password-file": reported["etcd_password_file"],
             "ca": reported["etcd_ca_file"], "cert": reported["etcd_cert_file"],
             "key": reported["etcd_key_file"]}
    options = "&".join(f"{name}={path}" for name, path in files.items() if path)
    return (f"etcd{'s' if secure.pop() else ''}://{user}{hosts}/{reported['etcd_namespace'].strip('/')}"
            + ("?" + options if options else ""))


def address(host, port):
    """Text that the library reads as an address: an IPv6 address stands in brackets."""
    return f"tcp://[{host}]:{port}" if ":" in host and not host.startswith("[") else (
        f"tcp://{host}:{port}")


class Metadata:
    """The metadata of one agent, on their way. Thread: any."""

    def __init__(self, agent, config):
        self._agent = agent
        self._lock = threading.Lock()
        self._open = False
        self._has_store = False
        self._settings = _towpath.settings()
        if config.useListenThread:
            self._begin(address(self._settings["listen_host"], config.listenPort))

    def _begin(self, listen=None):
        with self._lock:
            if self._open:
                return
            store, token = store_url(self._settings), None
            if path := self._settings["token_file"]:
                with open(path, "rb") as file:
                    token = file.read().strip()
            self._agent.exchange_metadata(listen=listen, store=store, token=token)
            self._open, self._has_store = True, store is not None

    def _place(self, ip_addr, port):
        self._begin()
        if ip_addr:
            return address(ip_addr, port)
        if not self._has_store:
            raise errors.InvalidArgument("no address, and no store for metadata",
                                         "pass ip_addr and port, or set NIXL_ETCD_ENDPOINTS")
        return None

    def send(self, ip_addr, port):
        self._agent.send_metadata(self._place(ip_addr, port))

    def send_partial(self, descs, inc_conn_info, ip_addr, port, label):
        self._agent.send_metadata(self._place(ip_addr, port), only=descs,
                              connection_info=inc_conn_info, label=label)

    def fetch(self, remote_agent, ip_addr, port, label):
        self._agent.fetch_metadata(remote_agent, self._place(ip_addr, port),
                               label="" if label == _FULL else label)

    def invalidate(self, ip_addr, port):
        self._agent.withdraw_metadata(self._place(ip_addr, port))

    def report(self):
        """Logs what came of earlier calls."""
        if not self._open:
            return
        for outcome in self._agent.metadata_outcomes():
            say = logger.warning if outcome["error"] else logger.info
            say("metadata of %s %s, %s: %s", outcome["agent"], outcome["what"], outcome["place"],
                outcome["error"] or "good")
