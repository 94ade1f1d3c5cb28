// Descriptor lists: xfer_dlist_*, reg_dlist_*, remote_dlist_*.
#include <cstdio>

#include <towpath/core/format.h>

#include "bindings/nixl/call.h"
#include "bindings/nixl/descriptors.h"
#include "bindings/nixl/vocabulary.h"

using namespace towpath::nixl;
using towpath::cat;

namespace {

template <typename List>
nixl_capi_status_t create_list(const nixl_capi_mem_type_t& type, List** list) {
  if (!is_memory_type(type)) return NIXL_CAPI_ERROR_INVALID_PARAM;
  return create(list, type);
}

template <typename List, typename Entry>
nixl_capi_status_t add(List* list, Entry entry) {
  list->entries.push_back(std::move(entry));
  return NIXL_CAPI_SUCCESS;
}

template <typename List>
nixl_capi_status_t get_type(List* list, nixl_capi_mem_type_t* type) {
  return answer(list, type, [](const List& of) { return of.type; });
}

template <typename List>
nixl_capi_status_t count(List* list, size_t* into) {
  return answer(list, into, [](const List& of) { return of.entries.size(); });
}

template <typename List>
nixl_capi_status_t is_empty(List* list, bool* into) {
  return answer(list, into, [](const List& of) { return of.entries.empty(); });
}

template <typename List>
nixl_capi_status_t trim(List* list) {
  return call(given(list), [&] {
    list->entries.shrink_to_fit();
    return NIXL_CAPI_SUCCESS;
  });
}

template <typename List>
nixl_capi_status_t remove(List* list, int index) {
  return call(given(list), [&] {
    auto& entries = list->entries;
    if (index < 0 || static_cast<size_t>(index) >= entries.size()) return NIXL_CAPI_ERROR_BACKEND;
    entries.erase(entries.begin() + index);
    return NIXL_CAPI_SUCCESS;
  });
}

template <typename List>
nixl_capi_status_t clear(List* list) {
  return call(given(list), [&] {
    list->entries.clear();
    return NIXL_CAPI_SUCCESS;
  });
}

template <typename List>
nixl_capi_status_t resize(List* list, size_t new_size) {
  return call(given(list), [&] {
    list->entries.resize(new_size);
    return NIXL_CAPI_SUCCESS;
  });
}

template <typename List>
nixl_capi_status_t print(List* list) {
  return call(given(list), [&] {
    std::string text = cat(type_name(list->type), ", ", list->entries.size(), " descriptors\n");
    for (const auto& entry : list->entries) {
      text.append(cat("  ", towpath::hex(entry.where.address), " +", entry.where.length, " device ",
                      entry.where.device_id, "\n"));
    }
    std::fwrite(text.data(), 1, text.size(), stdout);
    return NIXL_CAPI_SUCCESS;
  });
}

}  // namespace

extern "C" {

nixl_capi_status_t nixl_capi_create_xfer_dlist(nixl_capi_mem_type_t mem_type,
                                               nixl_capi_xfer_dlist_t* dlist) {
  return create_list(mem_type, dlist);
}
nixl_capi_status_t nixl_capi_destroy_xfer_dlist(nixl_capi_xfer_dlist_t dlist) {
  return destroy(dlist);
}
nixl_capi_status_t nixl_capi_xfer_dlist_get_type(nixl_capi_xfer_dlist_t dlist,
                                                 nixl_capi_mem_type_t* mem_type) {
  return get_type(dlist, mem_type);
}
nixl_capi_status_t nixl_capi_xfer_dlist_add_desc(nixl_capi_xfer_dlist_t dlist, uintptr_t addr,
                                                 size_t len, uint64_t dev_id) {
  return call(given(dlist), [&] { return add(dlist, PlainEntry{{addr, len, dev_id}}); });
}
nixl_capi_status_t nixl_capi_xfer_dlist_desc_count(nixl_capi_xfer_dlist_t dlist,
                                                   size_t* descriptors) {
  return count(dlist, descriptors);
}
nixl_capi_status_t nixl_capi_xfer_dlist_len(nixl_capi_xfer_dlist_t dlist, size_t* len) {
  return count(dlist, len);
}
nixl_capi_status_t nixl_capi_xfer_dlist_is_empty(nixl_capi_xfer_dlist_t dlist, bool* empty) {
  return is_empty(dlist, empty);
}
nixl_capi_status_t nixl_capi_xfer_dlist_trim(nixl_capi_xfer_dlist_t dlist) { return trim(dlist); }
nixl_capi_status_t nixl_capi_xfer_dlist_rem_desc(nixl_capi_xfer_dlist_t dlist, int index) {
  return remove(dlist, index);
}
nixl_capi_status_t nixl_capi_xfer_dlist_clear(nixl_capi_xfer_dlist_t dlist) { return clear(dlist); }
nixl_capi_status_t nixl_capi_xfer_dlist_resize(nixl_capi_xfer_dlist_t dlist, size_t new_size) {
  return resize(dlist, new_size);
}
nixl_capi_status_t nixl_capi_xfer_dlist_print(nixl_capi_xfer_dlist_t dlist) { return print(dlist); }

nixl_capi_status_t nixl_capi_create_reg_dlist(nixl_capi_mem_type_t mem_type,
                                              nixl_capi_reg_dlist_t* dlist) {
  return create_list(mem_type, dlist);
}
nixl_capi_status_t nixl_capi_destroy_reg_dlist(nixl_capi_reg_dlist_t dlist) {
  return destroy(dlist);
}
nixl_capi_status_t nixl_capi_reg_dlist_get_type(nixl_capi_reg_dlist_t dlist,
                                                nixl_capi_mem_type_t* mem_type) {
  return get_type(dlist, mem_type);
}
nixl_capi_status_t nixl_capi_reg_dlist_add_desc(nixl_capi_reg_dlist_t dlist, uintptr_t addr,
                                                size_t len, uint64_t dev_id, const void* metadata,
                                                size_t metadata_len) {
  return call(given(dlist) && (metadata != nullptr || metadata_len == 0), [&] {
    return add(dlist,
               NamedEntry{{addr, len, dev_id},
                          std::string(towpath::as_text(lent_bytes(metadata, metadata_len)))});
  });
}
nixl_capi_status_t nixl_capi_reg_dlist_desc_count(nixl_capi_reg_dlist_t dlist,
                                                  size_t* descriptors) {
  return count(dlist, descriptors);
}
nixl_capi_status_t nixl_capi_reg_dlist_is_empty(nixl_capi_reg_dlist_t dlist, bool* empty) {
  return is_empty(dlist, empty);
}
nixl_capi_status_t nixl_capi_reg_dlist_trim(nixl_capi_reg_dlist_t dlist) { return trim(dlist); }
nixl_capi_status_t nixl_capi_reg_dlist_rem_desc(nixl_capi_reg_dlist_t dlist, int index) {
  return remove(dlist, index);
}
nixl_capi_status_t nixl_capi_reg_dlist_clear(nixl_capi_reg_dlist_t dlist) { return clear(dlist); }
nixl_capi_status_t nixl_capi_reg_dlist_resize(nixl_capi_reg_dlist_t dlist, size_t new_size) {
  return resize(dlist, new_size);
}
nixl_capi_status_t nixl_capi_reg_dlist_print(nixl_capi_reg_dlist_t dlist) { return print(dlist); }

nixl_capi_status_t nixl_capi_create_remote_dlist(nixl_capi_mem_type_t mem_type,
                                                 nixl_capi_remote_dlist_t* dlist) {
  return create_list(mem_type, dlist);
}
nixl_capi_status_t nixl_capi_destroy_remote_dlist(nixl_capi_remote_dlist_t dlist) {
  return destroy(dlist);
}
nixl_capi_status_t nixl_capi_remote_dlist_add_desc(nixl_capi_remote_dlist_t dlist, uintptr_t addr,
                                                   size_t len, uint64_t dev_id,
                                                   const char* remote_agent) {
  return call(given(dlist), [&] {
    return add(dlist, RemoteEntry{{addr, len, dev_id},
                                  remote_agent != nullptr ? remote_agent : "",
                                  remote_agent == nullptr});
  });
}

}  // extern "C"
