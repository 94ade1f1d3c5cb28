// Optional arguments: opt_args_*.
#include "bindings/nixl/call.h"
#include "bindings/nixl/lists.h"

using namespace towpath::nixl;

namespace {

nixl_capi_status_t keep_bytes(nixl_capi_opt_args_t args,
                              towpath::Bytes nixl_capi_opt_args_s::*where, const void* data,
                              size_t len) {
  return call(given(args) && (data != nullptr || len == 0), [&] {
    const towpath::ConstByteSpan bytes = lent_bytes(data, len);
    (args->*where).assign(bytes.begin(), bytes.end());
    return NIXL_CAPI_SUCCESS;
  });
}

// Nothing kept: null and 0.
nixl_capi_status_t give_kept(nixl_capi_opt_args_t args, towpath::Bytes nixl_capi_opt_args_s::*where,
                             void** data, size_t* len) {
  return call(given(args, data, len), [&] {
    if (!(args->*where).empty()) return give_bytes(args->*where, data, len);
    *data = nullptr;
    *len = 0;
    return NIXL_CAPI_SUCCESS;
  });
}

template <typename Value>
nixl_capi_status_t set(nixl_capi_opt_args_t args, Value nixl_capi_opt_args_s::*where, Value value) {
  return call(given(args), [&] {
    args->*where = value;
    return NIXL_CAPI_SUCCESS;
  });
}

}  // namespace

extern "C" {

nixl_capi_status_t nixl_capi_create_opt_args(nixl_capi_opt_args_t* args) { return create(args); }
nixl_capi_status_t nixl_capi_destroy_opt_args(nixl_capi_opt_args_t args) { return destroy(args); }
nixl_capi_status_t nixl_capi_opt_args_add_backend(nixl_capi_opt_args_t args,
                                                  nixl_capi_backend_t backend) {
  return call(given(args, backend), [&] {
    args->backends.push_back(backend->what);
    return NIXL_CAPI_SUCCESS;
  });
}

nixl_capi_status_t nixl_capi_opt_args_set_notif_msg(nixl_capi_opt_args_t args, const void* data,
                                                    size_t len) {
  return keep_bytes(args, &nixl_capi_opt_args_s::message, data, len);
}
nixl_capi_status_t nixl_capi_opt_args_get_notif_msg(nixl_capi_opt_args_t args, void** data,
                                                    size_t* len) {
  return give_kept(args, &nixl_capi_opt_args_s::message, data, len);
}
nixl_capi_status_t nixl_capi_opt_args_set_has_notif(nixl_capi_opt_args_t args, bool has_notif) {
  return set(args, &nixl_capi_opt_args_s::has_notification, has_notif);
}
nixl_capi_status_t nixl_capi_opt_args_get_has_notif(nixl_capi_opt_args_t args, bool* has_notif) {
  return answer(args, has_notif, [](const auto& of) { return of.has_notification; });
}

nixl_capi_status_t nixl_capi_opt_args_set_custom_param(nixl_capi_opt_args_t args, const void* data,
                                                       size_t len) {
  return keep_bytes(args, &nixl_capi_opt_args_s::custom_parameter, data, len);
}
nixl_capi_status_t nixl_capi_opt_args_get_custom_param(nixl_capi_opt_args_t args, void** data,
                                                       size_t* len) {
  return give_kept(args, &nixl_capi_opt_args_s::custom_parameter, data, len);
}

nixl_capi_status_t nixl_capi_opt_args_set_skip_desc_merge(nixl_capi_opt_args_t args,
                                                          bool skip_merge) {
  return set(args, &nixl_capi_opt_args_s::skip_merge, skip_merge);
}
nixl_capi_status_t nixl_capi_opt_args_get_skip_desc_merge(nixl_capi_opt_args_t args,
                                                          bool* skip_merge) {
  return answer(args, skip_merge, [](const auto& of) { return of.skip_merge; });
}

nixl_capi_status_t nixl_capi_opt_args_set_ip_addr(nixl_capi_opt_args_t args, const char* ip_addr) {
  return call(given(args, ip_addr), [&] {
    args->address = ip_addr;
    return NIXL_CAPI_SUCCESS;
  });
}
nixl_capi_status_t nixl_capi_opt_args_set_port(nixl_capi_opt_args_t args, uint16_t port) {
  return set(args, &nixl_capi_opt_args_s::port, port);
}

}  // extern "C"
