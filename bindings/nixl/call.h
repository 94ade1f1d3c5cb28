// What every function of the C interface needs: a net for exceptions, checks for null, and the ways
// in which handles and bytes change hands.
//
//   nixl_capi_status_t nixl_capi_params_is_empty(nixl_capi_params_t params, bool* is_empty) {
//     return call(given(params, is_empty), [&] {
//       *is_empty = params->values.empty();
//       return NIXL_CAPI_SUCCESS;
//     });
//   }
//
// Thread: any.
#pragma once

#include <cstdlib>
#include <cstring>
#include <string_view>
#include <utility>

#include <towpath/core/bytes.h>

#include "bindings/nixl/nixl_capi.h"

namespace towpath::nixl {

/// Whether all of them point to something.
template <typename... Pointers>
bool given(const Pointers*... pointers) noexcept {
  return ((pointers != nullptr) && ...);
}

/// Runs `body` if the call is well formed. What is thrown (memory ran out) ends here.
template <typename Body>
nixl_capi_status_t call(bool well_formed, Body&& body) noexcept {
  if (!well_formed) return NIXL_CAPI_ERROR_INVALID_PARAM;
  try {
    return std::forward<Body>(body)();
  } catch (...) {
    return NIXL_CAPI_ERROR_BACKEND;
  }
}

/// create_*: the caller owns what `handle` points to now.
template <typename Handle, typename... Values>
nixl_capi_status_t create(Handle** handle, Values&&... values) noexcept {
  return call(given(handle), [&] {
    *handle = new Handle{std::forward<Values>(values)...};
    return NIXL_CAPI_SUCCESS;
  });
}

/// destroy_*.
template <typename Handle>
nixl_capi_status_t destroy(Handle* handle) noexcept {
  return call(given(handle), [&] {
    delete handle;
    return NIXL_CAPI_SUCCESS;
  });
}

/// One number or flag of a handle.
template <typename Handle, typename Value, typename Ask>
nixl_capi_status_t answer(Handle* handle, Value* into, Ask ask) noexcept {
  return call(given(handle, into), [&] {
    *into = ask(*handle);
    return NIXL_CAPI_SUCCESS;
  });
}

/// A copy that the caller gives back with free(); never null, also of no bytes.
inline nixl_capi_status_t give_bytes(ConstByteSpan bytes, void** data, size_t* len) noexcept {
  void* copy = std::malloc(bytes.empty() ? 1 : bytes.size());
  if (copy == nullptr) return NIXL_CAPI_ERROR_BACKEND;
  if (!bytes.empty()) std::memcpy(copy, bytes.data(), bytes.size());
  *data = copy;
  *len = bytes.size();
  return NIXL_CAPI_SUCCESS;
}

/// The same for text, with a zero behind it.
inline nixl_capi_status_t give_text(std::string_view text, char** into) noexcept {
  auto* copy = static_cast<char*>(std::malloc(text.size() + 1));
  if (copy == nullptr) return NIXL_CAPI_ERROR_BACKEND;
  std::memcpy(copy, text.data(), text.size());
  copy[text.size()] = '\0';
  *into = copy;
  return NIXL_CAPI_SUCCESS;
}

/// The bytes that a caller points to; `data` may be null when there are none.
inline ConstByteSpan lent_bytes(const void* data, size_t len) noexcept {
  return {static_cast<const std::byte*>(data), data == nullptr ? 0 : len};
}

}  // namespace towpath::nixl
