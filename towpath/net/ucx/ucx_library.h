// UcxLibrary: the functions of libucp, found at run time. Only files of this folder include it.
//
// A program that links libucp gets its signal handlers and its memory hooks before main(), used or
// not, and a second copy if a host process brings its own. So it is opened when the first worker
// is (sys/dynamic_library.h).
// Thread: any; immutable once opened.
#pragma once

#include <string>

#include <ucp/api/ucp.h>

#include <towpath/core/result.h>

namespace towpath::net {

// All that is called. ucp_init() is an inline wrapper of ucp_init_version().
#define TOWPATH_UCX_FUNCTIONS(X) \
  X(ucp_get_version_string)      \
  X(ucp_config_read)             \
  X(ucp_config_modify)           \
  X(ucp_config_release)          \
  X(ucp_init_version)            \
  X(ucp_cleanup)                 \
  X(ucp_context_query)           \
  X(ucp_context_print_info)      \
  X(ucp_worker_create)           \
  X(ucp_worker_destroy)          \
  X(ucp_worker_get_address)      \
  X(ucp_worker_release_address)  \
  X(ucp_worker_get_efd)          \
  X(ucp_worker_arm)              \
  X(ucp_worker_progress)         \
  X(ucp_ep_create)               \
  X(ucp_ep_close_nbx)            \
  X(ucp_dt_create_generic)       \
  X(ucp_dt_destroy)              \
  X(ucp_tag_send_nbx)            \
  X(ucp_tag_recv_nbx)            \
  X(ucp_tag_probe_nb)            \
  X(ucp_request_check_status)    \
  X(ucp_request_free)            \
  X(ucp_request_cancel)          \
  X(ucs_status_string)

struct UcxLibrary {
#define TOWPATH_UCX_MEMBER(name) decltype(&::name) name = nullptr;
  TOWPATH_UCX_FUNCTIONS(TOWPATH_UCX_MEMBER)
#undef TOWPATH_UCX_MEMBER

  /// Errors: unsupported (not installed, or a function is missing), with the loader's own words.
  static Result<UcxLibrary> open();

  std::string say(ucs_status_t status) const { return ucs_status_string(status); }
};

}  // namespace towpath::net
