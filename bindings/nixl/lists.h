// The small values that C asks for item by item: text lists, memory lists, parameters, optional
// arguments, query answers.
// Thread: one at a time.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include <towpath/backend/backend.h>
#include <towpath/compat/nixl/backends.h>
#include <towpath/core/bytes.h>

#include "bindings/nixl/nixl_capi.h"

struct nixl_capi_string_list_s {
  std::vector<std::string> texts;
};

struct nixl_capi_mem_list_s {
  std::vector<nixl_capi_mem_type_t> types;
};

struct nixl_capi_params_s {
  towpath::backend::Params values;
};

/// Over a copy, so that what it lends stays whatever becomes of the parameters.
struct nixl_capi_param_iter_s {
  towpath::backend::Params values;
  towpath::backend::Params::const_iterator next;
};

struct nixl_capi_query_resp_list_s {
  std::vector<std::optional<towpath::backend::Params>> answers;
};

/// A backend of an agent. A value, since the handle may outlive the agent.
struct nixl_capi_backend_s {
  towpath::nixl::NixlBackend what;
};

struct nixl_capi_opt_args_s {
  std::vector<towpath::nixl::NixlBackend> backends;  ///< in the order of preference
  towpath::Bytes message;
  bool has_notification = false;
  bool skip_merge = false;
  towpath::Bytes custom_parameter;
  std::optional<std::string> address;
  std::uint16_t port = 8888;

  /// The notification to send, if one was asked for.
  std::optional<towpath::Bytes> notification() const {
    return has_notification ? std::optional(message) : std::nullopt;
  }
};

namespace towpath::nixl {

/// The backends that optional arguments name; none: all.
inline std::vector<nixl::NixlBackend> backends_of(const nixl_capi_opt_args_s* options) {
  return options != nullptr ? options->backends : std::vector<nixl::NixlBackend>();
}

}  // namespace towpath::nixl
