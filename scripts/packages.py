"""What `./dev` installs of Debian 12, and the kernels that it fetches."""

# What a fresh Debian 12 needs, per purpose. The only place where packages are named.
LIBRARY = ("g++ cmake ninja-build ccache pkg-config liburing-dev libxxhash-dev libfmt-dev nlohmann-json3-dev"
           " libcli11-dev libcurl4-openssl-dev libssl-dev libucx-dev prometheus-cpp-dev")
PACKAGES = {
    "demo": LIBRARY,
    "build": f"{LIBRARY} git libgtest-dev libgmock-dev libbenchmark-dev etcd-server openssl iproute2"
             " python3-swift"  # the library alone: its servers are started by tests, none by the system
             " python3-dev pybind11-dev python3-numpy python3-pytest python3-uvloop",
    # clang 16 is the oldest that knows std::source_location; llvm has what names functions in a sanitizer's report.
    "clang": "clang-19 libclang-rt-19-dev llvm-19",
    "format": "clang-format-14",  # each version formats in its own way: this one is the house's
    "lint": "clang-tidy-19",
    "reference": "doxygen",
    "launchers": "openmpi-bin",
    # Tests start servers of their own, but these packages start the machine's: CI alone installs them.
    "services": "openssh-server openssh-client slurmctld slurmd slurm-client munge",
    "bench": "fio ucx-utils python3-venv openmpi-bin libopenmpi-dev",
    "package": "dpkg-dev python3-venv abigail-tools",
    "roots": "mmdebstrap",
    "cross": "g++-aarch64-linux-gnu qemu-user-static",
    "cover": "gcovr",
    "qemu": "qemu-system-x86",
    "kernel": "flex bison bc libelf-dev xz-utils",
    # bindgen of the nixl-sys crate loads clang's library, kvbm-physical's build calls protoc; cargo is not Debian's.
    "interop": "clang-19 protobuf-compiler",
}
# The kernels of the machines in tests/qemu, and modules that they load: downloaded and unpacked, not
# installed. The small one has no RDMA; the soft RoCE of the other needs crc32 and does not say so.
GUEST_KERNELS = {
    "debian": [r"linux-image-6\.12\.[0-9]+\+deb12-cloud-amd64", "nvme_loop", "nvmet_tcp", "nvme_tcp"],
    "rdma": [r"linux-image-6\.12\.[0-9]+\+deb12-amd64", "crc32_generic", "veth", "ib_uverbs", "rdma_rxe"],
    # Kernel TLS changes keys since 6.14; it asks for its ciphers by name, which no module says.
    "tls": [r"linux-image-[0-9.]+\+deb13-cloud-amd64", "ctr", "gcm", "tls"],
}
# Those that Debian 12 has not, and which suite of Debian has them.
GUEST_KERNEL_SUITES = {"tls": "trixie-backports"}
KERNEL_SOURCE = "linux-source-6.12"  # of the one that ./dev p2p-kernel builds
